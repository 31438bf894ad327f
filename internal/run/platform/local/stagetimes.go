package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// stageTimes implements [platform.StageTimer], for the services that measure their own requests.
type stageTimes struct {
	layout    *layout
	workspace *workspace
}

// StageTimes implements [platform.StageTimer].
func (s *stageTimes) StageTimes(ctx context.Context) ([]platform.StageTime, error) {
	var all []platform.StageTime
	for _, pods := range s.layout.pods {
		for _, p := range pods {
			if p.beside == nil {
				continue
			}
			b, err := metricsOf(ctx, p)
			if err == nil {
				all, err = addStages(all, b)
			}
			if err != nil {
				return nil, fmt.Errorf("read the times of %s: %w", p.name, err)
			}
		}
	}
	return all, nil
}

// keep writes the adders' own times into the provenance, before they are stopped.
func (s *stageTimes) keep(ctx context.Context) error {
	var failed []error
	for _, pods := range s.layout.pods {
		for _, p := range pods {
			if p.beside != nil && p.api.IsValid() {
				failed = append(failed, s.keepOf(ctx, p))
			}
		}
	}
	return errors.Join(failed...)
}

// maxMetrics is the maximum size of one adder's metrics, bytes.
const maxMetrics = 1 << 20

func (s *stageTimes) keepOf(ctx context.Context, p *pod) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b, err := metricsOf(ctx, p)
	if err != nil {
		return nil // it has ended, which the watcher reports
	}
	return os.WriteFile(filepath.Join(s.workspace.provenance, p.name+"-metrics.txt"), b, 0o600)
}

// metricsOf reads a pod's metrics in the text format of Prometheus.
func metricsOf(ctx context.Context, p *pod) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, rootURL(p.api)+"metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
}

// stageMetric is the histogram of an adder's own times, by route and stage.
const stageMetric = "server_response_time"

// addStages adds the sums of one server's histogram to all.
func addStages(all []platform.StageTime, text []byte) ([]platform.StageTime, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, m := range families[stageMetric].GetMetric() {
		t := platform.StageTime{Count: int64(m.GetHistogram().GetSampleCount()), Seconds: m.GetHistogram().GetSampleSum()}
		for _, label := range m.GetLabel() {
			switch label.GetName() {
			case "route":
				t.Route = pathOf(label.GetValue())
			case "stage":
				t.Stage = label.GetValue()
			}
		}
		i := slices.IndexFunc(all, func(o platform.StageTime) bool { return o.Route == t.Route && o.Stage == t.Stage })
		if i < 0 {
			all = append(all, t)
			continue
		}
		all[i].Count += t.Count
		all[i].Seconds += t.Seconds
	}
	return all, nil
}

// pathOf is the path of a route by its label.
func pathOf(label string) string {
	for _, r := range app.AdderRoutes() {
		if r.Server == label {
			return r.Path
		}
	}
	return label
}
