package loadpage

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/stats"
)

// vegetaReport is the output of vegeta report -type=json, version 12.12, with durations in ns.
type vegetaReport struct {
	Latencies struct {
		Total int64 `json:"total"`
		Mean  int64 `json:"mean"`
		P50   int64 `json:"50th"`
		P90   int64 `json:"90th"`
		P95   int64 `json:"95th"`
		P99   int64 `json:"99th"`
		Max   int64 `json:"max"`
		Min   int64 `json:"min"`
	} `json:"latencies"`
	BytesIn    vegetaBytes      `json:"bytes_in"`
	BytesOut   vegetaBytes      `json:"bytes_out"`
	Earliest   time.Time        `json:"earliest"`
	Latest     time.Time        `json:"latest"`
	End        time.Time        `json:"end"`
	Duration   int64            `json:"duration"`
	Wait       int64            `json:"wait"`
	Requests   int64            `json:"requests"`
	Rate       float64          `json:"rate"`
	Throughput float64          `json:"throughput"`
	Success    float64          `json:"success"`
	Statuses   map[string]int64 `json:"status_codes"`
	Errors     []string         `json:"errors"`
}

type vegetaBytes struct {
	Total int64   `json:"total"`
	Mean  float64 `json:"mean"`
}

// Vegeta writes r as vegeta reports. As there, times are of all requests, failed ones
// included, and status 0 counts requests without an answer.
func Vegeta(w io.Writer, r *load.Report) error {
	v := vegetaReport{Earliest: r.MeasureStart, Latest: r.MeasureEnd, End: r.MeasureEnd, Requests: r.Requests, Statuses: maps.Clone(r.Statuses), Errors: []string{}}
	if h := times(r, func(string) bool { return true }); h.TotalCount() > 0 {
		l := &v.Latencies
		l.Mean, l.Max, l.Min = int64(h.Mean()), h.Max(), h.Min()
		l.Total = int64(h.Mean() * float64(h.TotalCount()))
		l.P50, l.P90, l.P95, l.P99 = h.ValueAtQuantile(50), h.ValueAtQuantile(90), h.ValueAtQuantile(95), h.ValueAtQuantile(99)
	}
	measured := r.MeasureEnd.Sub(r.MeasureStart)
	v.Duration = int64(measured)
	v.BytesIn, v.BytesOut = vegetaBytes{Total: r.BytesIn}, vegetaBytes{Total: r.BytesOut}
	if n := float64(r.Requests); n > 0 {
		v.BytesIn.Mean, v.BytesOut.Mean, v.Success = float64(r.BytesIn)/n, float64(r.BytesOut)/n, *r.Result.Success
	}
	if s := measured.Seconds(); s > 0 {
		v.Rate, v.Throughput = float64(r.Requests)/s, float64(r.Classes[load.OK])/s
	}
	if v.Statuses == nil {
		v.Statuses = map[string]int64{}
	}
	if without := r.Requests - sum(r.Statuses); without > 0 {
		v.Statuses["0"] = without
	}
	for _, c := range r.Result.Failures {
		text := c.String()
		if code, err := strconv.Atoi(strings.TrimPrefix(text, load.CauseStatus)); err == nil {
			text = strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code))) // as vegeta
		}
		v.Errors = append(v.Errors, text)
	}
	return json.NewEncoder(w).Encode(v)
}

// number is null in JSON where it is not finite, as oha has it.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'f', -1, 64), nil
}

// ohaPercentiles are those that oha prints, in its order.
var ohaPercentiles = []float64{10, 25, 50, 75, 90, 95, 99, 99.9, 99.99}

type object = map[string]any

// Oha writes r as oha prints it with --output-format json, version 1.16, with durations
// in s. seconds are the progress of the load: its rates are of whole seconds.
func Oha(w io.Writer, r *load.Report, seconds []load.Progress) error {
	h := times(r, answered)
	n, measured := float64(r.Requests), r.MeasureEnd.Sub(r.MeasureStart).Seconds()
	var answers int64
	for name, times := range r.Times {
		if answered(name) {
			answers += times.TotalCount()
		}
	}
	success := number(float64(answers) / n)
	rate := number(n / measured)
	in := func(ns float64) number { // s
		if h.TotalCount() == 0 {
			return number(math.NaN())
		}
		return number(ns / 1e9)
	}
	ms := func(ns float64) number { return in(math.Round(ns/1e3)) * 1e6 } // to the microsecond
	errors := map[string]int64{}
	for _, c := range r.Result.Failures {
		if !isStatus(c) {
			errors[c.String()] += c.Count
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(object{
		"summary": object{
			"successRate": success, "total": number(measured), "slowest": in(float64(h.Max())), "fastest": in(float64(h.Min())), "average": in(h.Mean()),
			"requestsPerSec": rate, "totalData": r.BytesIn, "sizePerRequest": number(math.Floor(float64(r.BytesIn) / float64(answers))),
			"sizePerSec": number(float64(r.BytesIn) / measured),
		},
		"metrics": object{
			"success_rate": success, "requests_per_sec": rate,
			"latency_ms": object{"min": ms(float64(h.Min())), "mean": ms(h.Mean()), "p50": ms(quantile(h, 50)), "p95": ms(quantile(h, 95)), "p99": ms(quantile(h, 99)), "max": ms(float64(h.Max()))},
		},
		"responseTimeHistogram": ohaHistogram(h),
		"latencyPercentiles":    percentiles(func(q float64) number { return in(quantile(h, q)) }),
		"firstByteHistogram":    ohaHistogram(r.FirstByte),
		"firstBytePercentiles":  ohaQuantiles(r.TTFBMS),
		"rps":                   ohaRates(seconds),
		"details": object{
			"DNSDialup": ohaDetail(r.ConnectMS), "DNSLookup": ohaDetail(r.ResolveMS), "firstByte": ohaDetail(r.TTFBMS),
		},
		"statusCodeDistribution": r.Statuses,
		"errorDistribution":      errors,
	})
}

// The JSON of other load generators, with their fields and units. Response times count
// from the intended start, and bytes include headers: both differ from the originals.

// times adds up distributions, of the named classes or of all.
func times(r *load.Report, classes func(name string) bool) *hdrhistogram.Histogram {
	sum := hdrhistogram.New(1, int64(time.Minute), 3)
	for name, h := range r.Times {
		if classes(name) {
			sum.Merge(h)
		}
	}
	return sum
}

// answered reports whether a class of outcomes has answers.
func answered(class string) bool {
	return class != string(load.Timeout) && class != string(load.Conn)
}

func isStatus(c load.Cause) bool { return strings.HasPrefix(c.Cause, load.CauseStatus) }

func quantile(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) }

// ohaQuantiles converts ms to s.
func ohaQuantiles(q load.Quantiles) object {
	values := map[float64]float64{10: q.P10, 25: q.P25, 50: q.P50, 75: q.P75, 90: q.P90, 95: q.P95, 99: q.P99, 99.9: q.P999, 99.99: q.P9999}
	return percentiles(func(p float64) number { return orNull(q.Count > 0, values[p]/1e3) })
}

func ohaDetail(q load.Quantiles) object {
	known := q.Count > 0
	return object{"average": orNull(known, q.Mean/1e3), "fastest": orNull(known, q.Min/1e3), "slowest": orNull(known, q.Max/1e3)}
}

// ohaHistogram counts times up to each of eleven bounds in even steps, in s.
func ohaHistogram(h *hdrhistogram.Histogram) object {
	const steps = 10
	if h == nil || h.TotalCount() == 0 {
		return object{"NaN": 0}
	}
	low, high := float64(h.Min()), float64(h.Max())
	counts := make([]int64, steps+1)
	for _, b := range h.Distribution() {
		if b.Count > 0 && high > low {
			counts[min(steps, max(0, int(math.Ceil((float64(b.From)-low)/(high-low)*steps))))] += b.Count
		} else {
			counts[0] += b.Count
		}
	}
	named := object{}
	for i, n := range counts {
		bound := strconv.FormatFloat((low+(high-low)*float64(i)/steps)/1e9, 'f', -1, 64)
		if had, ok := named[bound].(int64); ok {
			n += had
		}
		named[bound] = n
	}
	return named
}

// ohaRates are answers a second, over the whole seconds of the measure window.
func ohaRates(seconds []load.Progress) object {
	var rates []float64
	for _, s := range seconds {
		if s.Phase == "measure" {
			rates = append(rates, float64(s.Completed))
		}
	}
	slices.Sort(rates)
	known := len(rates) > 0
	low, high, mean, deviation := 0.0, 0.0, 0.0, 0.0
	if known {
		low, high = rates[0], rates[len(rates)-1]
		mean, deviation = stats.Mean(rates), stats.SD(rates)
	}
	return object{
		"mean": orNull(known, mean), "stddev": orNull(known, deviation), "max": orNull(known, high), "min": orNull(known, low),
		"percentiles": percentiles(func(q float64) number {
			if !known {
				return number(math.NaN())
			}
			rank := int(math.Ceil(q / 100 * float64(len(rates)))) // nearest rank
			return number(rates[max(0, rank-1)])
		}),
	}
}

func percentiles(of func(q float64) number) object {
	named := object{}
	for _, q := range ohaPercentiles {
		named[fmt.Sprintf("p%v", q)] = of(q)
	}
	return named
}

func orNull(known bool, v float64) number {
	if !known {
		return number(math.NaN())
	}
	return number(v)
}
