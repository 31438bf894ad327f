package push

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/prompb"

	"github.com/tare-mesh/tare/internal/show/series"
)

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
		var samples []prompb.Sample
		for _, p := range s.Points {
			samples = append(samples, prompb.Sample{Timestamp: p.At.UnixMilli(), Value: p.Value})
		}
		w.Timeseries = append(w.Timeseries, prompb.TimeSeries{Labels: labels, Samples: samples})
	}
	return w
}
