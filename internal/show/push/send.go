// Package push sends time series to a database, by Prometheus remote write or OTLP.
package push

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/prompb"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/show/series"
)

// Limits of a push.
const (
	mostPoints     = 5000             // of a request
	requestTimeout = 15 * time.Second // of one request
	mostTime       = 2 * time.Minute  // of all
	mostAnswer     = 64 << 10         // bytes of an answer
	firstWait      = 500 * time.Millisecond
	longestWait    = 10 * time.Second
	mostRetries    = 5
)

type sender func(ctx context.Context, part []series.Series) error

var senders = map[series.Protocol]func(*series.Target, *http.Client) (sender, error){series.RemoteWrite: remoteWriter, series.OTLP: otlpExporter}

// Send sends series. Some may have arrived before an error.
func Send(outer context.Context, t *series.Target, all []series.Series) error {
	ctx, cancel := context.WithTimeout(outer, mostTime)
	defer cancel()
	send, err := senders[t.Protocol](t, client(t))
	if err != nil {
		return t.Problem(err)
	}
	for _, part := range series.Batches(all, mostPoints) {
		if err := send(ctx, part); err != nil {
			if canceled := outer.Err(); canceled != nil {
				return canceled
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("not complete after %v: %w", mostTime, err)
			}
			return t.Problem(err)
		}
	}
	return nil
}

// client sends the headers of the target, follows no redirect, and bounds answers.
func client(t *series.Target) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = mostAnswer
	return &http.Client{
		Timeout:       requestTimeout,
		Transport:     headers{t.Header, t.URL.RawQuery, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// headers adds headers and the query to each request.
type headers struct {
	add   http.Header
	query string
	to    http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, h.add)
	r.URL.RawQuery = h.query // the exporter of OTLP leaves it out
	answer, err := h.to.RoundTrip(r)
	if err == nil {
		answer.Body = bounded{io.LimitReader(answer.Body, mostAnswer), answer.Body}
	}
	return answer, err
}

type bounded struct {
	io.Reader
	io.Closer
}

// otlpExporter sends by OTLP over HTTP. Its options of the environment (OTEL_EXPORTER_OTLP_HEADERS and others) hold.
func otlpExporter(t *series.Target, client *http.Client) (sender, error) {
	exporter, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(t.URL.String()), otlpmetrichttp.WithHTTPClient(client),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: firstWait, MaxInterval: longestWait, MaxElapsedTime: mostTime / 2}))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, part []series.Series) error { return exporter.Export(ctx, metrics(part)) }, nil
}

// metrics has a gauge for each name. The job is the name of the service, as the conversion to Prometheus has it.
func metrics(part []series.Series) *metricdata.ResourceMetrics {
	var gauges []metricdata.Metrics
	for _, s := range part {
		attributes := []attribute.KeyValue{}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			if name != "job" {
				attributes = append(attributes, attribute.String(name, s.Labels[name]))
			}
		}
		set := attribute.NewSet(attributes...)
		var points []metricdata.DataPoint[float64]
		for _, p := range s.Points {
			points = append(points, metricdata.DataPoint[float64]{Attributes: set, Time: p.At, Value: p.Value})
		}
		if n := len(gauges); n > 0 && gauges[n-1].Name == s.Name {
			g := gauges[n-1].Data.(metricdata.Gauge[float64])
			g.DataPoints = append(g.DataPoints, points...)
			gauges[n-1].Data = g
			continue
		}
		gauges = append(gauges, metricdata.Metrics{Name: s.Name, Description: s.Help, Data: metricdata.Gauge[float64]{DataPoints: points}})
	}
	return &metricdata.ResourceMetrics{
		Resource:     resource.NewSchemaless(attribute.String("service.name", "tare")),
		ScopeMetrics: []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: "github.com/tare-mesh/tare"}, Metrics: gauges}},
	}
}

// remoteWriter sends by Prometheus remote write 1.0, which every receiver accepts.
func remoteWriter(t *series.Target, client *http.Client) (sender, error) {
	to := *t.URL
	api, err := remote.NewAPI(to.String(), remote.WithAPIPath(""), remote.WithAPIHTTPClient(client),
		remote.WithAPIBackoff(remote.BackoffConfig{Min: firstWait, Max: longestWait, MaxRetries: mostRetries}))
	if err != nil {
		return nil, err
	}
	retrying := remote.WithWriteRetryCallback(func(err error) {
		if t.Retrying != nil {
			t.Retrying(t.Problem(err).Error())
		}
	})
	return func(ctx context.Context, part []series.Series) error {
		_, err := api.Write(ctx, remote.WriteV1MessageType, writeRequest(part), retrying)
		return err
	}, nil
}

// writeRequest has the labels of each series in the order of names, as the protocol requires.
func writeRequest(part []series.Series) *prompb.WriteRequest {
	w := &prompb.WriteRequest{}
	described := ""
	for _, s := range part {
		if s.Name != described {
			described = s.Name
			w.Metadata = append(w.Metadata, prompb.MetricMetadata{Type: prompb.MetricMetadata_GAUGE, MetricFamilyName: s.Name, Help: s.Help})
		}
		labels := []prompb.Label{{Name: "__name__", Value: s.Name}}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			labels = append(labels, prompb.Label{Name: name, Value: s.Labels[name]})
		}
		samples := lists.Map(s.Points, func(p series.Point) prompb.Sample { return prompb.Sample{Timestamp: p.At.UnixMilli(), Value: p.Value} })
		w.Timeseries = append(w.Timeseries, prompb.TimeSeries{Labels: labels, Samples: samples})
	}
	return w
}
