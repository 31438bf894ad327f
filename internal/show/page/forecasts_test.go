package page_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/must"
)

// Every curve has a title of its own and the unit of its kind of cost, and the axes at whose levels its marks are.
func TestCurvesOfForecastsHaveTheirOwnTitles(t *testing.T) {
	var points []predict.Point
	for block := range 3 {
		for _, rate := range []float64{100, 300, 900} {
			for _, size := range []float64{100, 2048} {
				for _, connections := range []float64{2, 8} {
					points = append(points, predict.Point{Block: block, At: []float64{rate, size, connections}, Cost: 0.02 + rate/5000 + float64(block)/1000})
				}
			}
		}
	}
	curve := must.Get(predict.Fit(points, []string{"rate", "responseSize", "connections"}, 0.95))(t)
	place := predict.Placed{Service: "front", Rate: 300, At: []float64{300, 2048, 5}, Band: must.Get(curve.At(300, 2048, 5))(t)}
	f := predict.Forecast{Mesh: "envoy", Factors: plan.Factors{"mesh": "envoy"}, Confidence: 0.95, From: []string{"runs/x"}, Blocks: 3, NoLatency: "none"}
	for _, u := range []predict.Used{
		{Kind: predict.CPU, Of: "inbound calls"}, {Kind: predict.Memory, Of: "inbound calls"},
		{Kind: predict.Latency, Of: "each of 3 calls with the mesh"}, {Kind: predict.Latency, Of: "each of 3 calls without a mesh"},
	} {
		u.Protocol, u.From, u.Curve, u.Places = "http1", "runs/x", curve, []predict.Placed{place}
		f.Curves = append(f.Curves, u)
	}
	points = nil
	for block := range 3 {
		for _, n := range []float64{0, 1, 3} {
			points = append(points, predict.Point{Block: block, At: []float64{n}, Cost: 60 + n + float64(block)})
		}
	}
	calls := must.Get(predict.Fit(points, []string{"services that a sidecar calls"}, 0.95))(t)
	rare := predict.Placed{Service: "front", Rate: 1, At: []float64{3}, Band: must.Get(calls.At(3))(t)} // 1 request per second, 3 services
	f.Curves = append(f.Curves, predict.Used{Kind: predict.Memory, Of: "called services", Protocol: "grpc", From: "runs/callers", Curve: calls, Places: []predict.Placed{rare}})
	var b bytes.Buffer
	must.OK(t, page.WriteForecasts(&b, report.Forecasts{Schema: "tare.forecast/v1", Graph: "shop", Rates: map[string]float64{"front": 300}, Forecasts: []predict.Forecast{f}}, "v1"))
	if strings.Contains(b.String(), "requests per second are below the curve") {
		t.Error("a rate is below a number of called services")
	}
	if strings.Contains(b.String(), `"unlinked":true`) {
		t.Error("contents without one of five curves")
	}
	must.Contain(t, b.String(),
		`"title":"inbound calls, http1, responseSize 2KiB, connections 5","x":"requests per second through one proxy","y":"CPU, millicores"`,
		`"title":"inbound calls, http1, responseSize 2KiB, connections 5","x":"requests per second through one proxy","y":"Memory, MiB"`,
		`"title":"each of 3 calls with the mesh, http1, responseSize 2KiB, connections 5","x":"requests per second through one proxy","y":"Share of the median response, ms"`,
		`"title":"each of 3 calls without a mesh, http1, responseSize 2KiB, connections 5"`,
		`"title":"called services, grpc","x":"services that a sidecar calls","y":"Memory, MiB"`,
		". Marks are at all measured levels of responseSize and connections")
	f.Curves = slices.Concat(f.Curves, f.Curves)
	b.Reset()
	must.OK(t, page.WriteForecasts(&b, report.Forecasts{Schema: "tare.forecast/v1", Graph: "shop", Rates: map[string]float64{"front": 300}, Forecasts: []predict.Forecast{f}}, "v1"))
	if got := strings.Count(b.String(), `"unlinked":true`); got != 8 {
		t.Errorf("%d of 10 curves are not in the contents, want 8: all but those of CPU", got)
	}
}

// A prediction compares nothing: its page has no title and no word of comparisons.
func TestPageOfAPredictionHasItsOwnTitles(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, page.WritePrediction(&b, page.Prediction{Name: "tare size", Command: "tare size", Parts: []page.Part{{Title: "envoy, sidecar", Facts: []report.Fact{{Name: "requests", Text: "cpu 300m"}}}},
		Text: func(w io.Writer) error {
			_, err := io.WriteString(w, "measured 3 times (blocks); p99 holds, of each sidecar\n")
			return err
		}}))
	html, _, _ := strings.Cut(b.String(), "<footer>")
	must.Contain(t, html, "<h2>tare size as text</h2>", "<dt>block, trial</dt>", "<dt>p50, p99</dt>", "<dt>sidecar</dt>")
	for _, word := range []string{"Report as text", "<dt>baseline</dt>", "<dt>verdict</dt>", "<dt>gate</dt>", "<dt>noise</dt>"} {
		if strings.Contains(html, word) {
			t.Errorf("the page of a prediction has %q", word)
		}
	}
}
