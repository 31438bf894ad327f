package push

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/tare-mesh/tare/internal/show/series"
)

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
