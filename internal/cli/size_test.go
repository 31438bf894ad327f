package cli

import (
	"errors"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/test/must"
)

// Flags that choose one of several sizes are named with the measured levels.
func TestSeveralLevelsNameTheirFlags(t *testing.T) {
	var all []predict.Size
	for _, connections := range []float64{2, 8, 16} {
		for _, size := range []float64{100, 100 << 10} {
			all = append(all, predict.Size{Factors: plan.Factors{"mesh": "envoy", "connections": connections, "responseSize": size, "requestSize": 0.0}})
		}
	}
	if got, want := severalLevels(all), []string{"--connections (2 to 16)", "--response-size (100 to 100KiB)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := severalLevels(all[:1]); got != nil {
		t.Errorf("%q for one size", got)
	}
}

// Flags about proxies that the run does not have are refused: the size would be of others.
func TestSizesRefuseFlagsWithoutTheirProxies(t *testing.T) {
	sidecar := []predict.Size{{Proxy: "sidecar of echo"}}
	pods, total := sizeOptions{pods: "pods.txt"}, sizeOptions{totalRate: 10000}
	for want, err := range map[string]error{"--pods: the run has no proxy of a node": pods.unused(sidecar), "--total-rate: the run has no waypoint and no gateway": total.unused(sidecar)} {
		if must.Fail(t, err, want); !errors.As(err, new(*hint.UsageError)) || hint.Of(err) == "" {
			t.Errorf("%v has no hint, or is no mistake of usage", err)
		}
	}
	must.OK(t, pods.unused([]predict.Size{sidecar[0], {Nodes: &predict.Nodes{}}}))
	must.OK(t, total.unused([]predict.Size{sidecar[0], {Replicas: &predict.Replicas{}}}))
}

// A headroom may be a multiple.
func TestHeadroom(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "30%": 0.3, "0.5": 0.5, "100%": 1, "250%": 2.5} {
		s, err := sizeOptions{rate: 1, headroom: text}.sizing()
		if err != nil || s.Headroom != want {
			t.Errorf("%s: %v, %v, want %v", text, s.Headroom, err, want)
		}
	}
	for _, text := range []string{"3", "-5%", "much", "NaN%"} {
		must.Fail(t, must.Err(sizeOptions{rate: 1, headroom: text}.sizing()), "--headroom")
	}
}
