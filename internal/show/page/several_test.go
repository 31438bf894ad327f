package page_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/must"
)

// severalOf are the pages of sizes and of forecasts.
func severalOf(t *testing.T) map[string]other {
	t.Helper()
	var prediction bytes.Buffer
	band := page.Band{X: 700, Estimate: 190, Low: 180, High: 200, NewLow: 150, NewHigh: 230}
	first := page.Band{X: 100, Estimate: 40, Low: 35, High: 45, NewLow: 20, NewHigh: 60}
	predicted := page.Prediction{
		Name: planted, Tare: "v1", Schema: "tare.size/v1", Command: "tare size",
		Parts:  []page.Part{{Title: planted, Facts: []report.Fact{{Name: "requests", Text: "cpu 190m"}, {Name: "limits", Text: planted}}}},
		Curves: []page.Curve{{Title: planted, X: "requests per second", Y: "CPU, millicores", Points: [][2]float64{{100, 38}, {300, 90}, {900, 240}}, Line: []page.Band{first, band}, Wanted: []page.Band{band}, About: planted}},
		Steps:  []report.NextRun{{Step: predict.Step{What: planted}, Command: "tare run " + planted}}, Facts: []report.Fact{{Name: "Results", Text: planted}},
		Text: func(w io.Writer) error { _, err := io.WriteString(w, planted); return err },
	}
	cost := predict.Amount{Estimate: 0.3, Low: 0.25, High: 0.35, Causes: predict.Causes{Curve: 0.03, Deployment: 0.04, Range: 0.01}}
	points := []predict.Point{}
	for block := range 3 {
		for _, rate := range []float64{100, 300, 900} {
			points = append(points, predict.Point{Block: block, At: []float64{rate}, Cost: 0.02 + 0.0002*rate*(1+0.01*float64(block))})
		}
	}
	curve := must.Get(predict.Fit(points, []string{"rate"}, 0.95))(t)
	forecast := predict.Forecast{Mesh: planted, Factors: plan.Factors{"mesh": planted}, Confidence: 0.95, From: []string{planted}, Blocks: 3, CPU: cost, Memory: cost, Month: &cost, NoLatency: planted, Unmeasured: true,
		Services: []predict.ServiceCost{{Service: planted, Replicas: 1, Rate: 300, CPU: cost, Memory: cost}, {Service: "rare", Replicas: 1, Rate: 30, CPU: cost, Memory: cost}},
		Curves: []predict.Used{{What: "CPU of inbound calls", Kind: predict.CPU, Of: "inbound calls", Protocol: "http1", From: planted, Curve: curve, Places: []predict.Placed{
			{Service: planted, Rate: 300, At: []float64{300}, Band: must.Get(curve.At(300))(t)},
			{Service: "rare", Rate: 30, At: []float64{100}, Band: must.Get(curve.At(100))(t)}}}}}
	asked := must.Get(report.NewForecasts([]string{"runs/x"}, predict.Graph{Topology: app.Topology{Name: planted, Entry: "front", Services: []app.Service{{Name: "front"}}}}, map[string]float64{"front": 300}, []predict.Forecast{forecast}, nil, &answer.Prices{Currency: "USD", GiB: &answer.Price{}}))(t)
	var forecasts bytes.Buffer
	must.OK(t, errors.Join(
		page.WriteForecasts(&forecasts, asked, "v1"),
		page.WritePrediction(&prediction, predicted),
	))
	return map[string]other{
		"hostile-prediction": {prediction.Bytes(), func(t *testing.T, f finding) {
			panels := f.Marks["figure-curve-1"]
			if len(panels) != 1 {
				t.Fatalf("%d panels", len(panels))
			}
			nearly(t, "measured", panels[0].Runs, predicted.Curves[0].Points)
			nearly(t, "wanted", panels[0].Levels, [][2]float64{{700, 190}})
			nearly(t, "new deployment", panels[0].LevelIntervals, [][2]float64{{150, 230}})
			must.Contain(t, f.Text, ": requests cpu 190m; limits ", "To be more certain", "In detail")
		}},
		"hostile-forecasts": {forecasts.Bytes(), func(t *testing.T, f finding) {
			panels := f.Marks["figure-curve-1"]
			if len(panels) != 1 {
				t.Fatalf("%d panels", len(panels))
			}
			var measured [][2]float64
			for _, p := range points {
				measured = append(measured, [2]float64{p.At[0], 1000 * p.Cost})
			}
			nearly(t, "measured", panels[0].Runs, measured)
			nearly(t, "services", panels[0].Levels, [][2]float64{{100, 40.2}, {300, 80.6}})
			must.Contain(t, f.Text, ": CPU of sidecars 300m (250m to 350m); memory 0 MiB (0 to 1); median response no forecast", "19 of 20 lie in it",
				"Sidecars of each service", "±40m", "±30m", "rate not measured", "±10m", "what was not measured: every rate", "tare run runs/x/experiment.yaml")
		}},
	}
}

// nearly compares points of logarithmic axes.
func nearly(t *testing.T, what string, got, want [][2]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d points, want %d", what, len(got), len(want))
	}
	order := func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	for i := range got {
		for j := range got[i] {
			if math.Abs(got[i][j]-want[i][j]) > 0.01*want[i][j] {
				t.Errorf("%s: %v, want %v", what, got[i], want[i])
			}
		}
	}
}

// sameCapacity compares the curve with the report.
func sameCapacity(t *testing.T, r *answer.Report, f finding) {
	panels := f.Marks["figure-capacity"]
	if len(panels) != 1 {
		t.Fatalf("%d panels of capacity", len(panels))
	}
	var want [][2]float64
	for _, x := range r.Treatments {
		if rate, ok := x.Factors["rate"].(float64); ok && !x.Control {
			want = append(want, [2]float64{rate, x.Metrics["latency_ms/p99"].Estimate})
		}
	}
	nearly(t, "capacity", panels[0].Probes, want)
}
