package cli

import (
	"encoding/csv"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/show/report"
)

// loadClasses are the CSV's columns of counts, in order.
var loadClasses = []load.Class{load.OK, load.Status, load.Timeout, load.Conn}

// loadQuantiles are its columns of times.
var loadQuantiles = []float64{50, 90, 99, 99.9, 100}

// writeLoadCSV writes a line for each second of the schedule, warm-up and tail included, which
// the last column marks: how many of the requests intended in it ended how, and quantiles. They are of the times
// of requests with success, ms, and of the lateness of all, µs.
func writeLoadCSV(w io.Writer, log io.Reader, p *load.Profile) error {
	seconds := map[int]map[string]*hdrhistogram.PackedHistogram{}
	err := hdrlog.ReadSeconds(log, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		if seconds[second] == nil {
			seconds[second] = map[string]*hdrhistogram.PackedHistogram{}
		}
		if sum := seconds[second][tag]; sum != nil {
			sum.Merge(h)
		} else {
			seconds[second][tag] = h
		}
		return nil
	})
	if err != nil {
		return err
	}
	times := []struct {
		column, tag string
		unit        float64 // ns
	}{
		{"response_ms", load.TagResponse + string(load.OK), 1e6}, {"service_ms", load.TagService + string(load.OK), 1e6},
		{"lateness_us", load.TagLateness, 1e3},
	}
	header := []string{"second"}
	for _, class := range loadClasses {
		header = append(header, string(class))
	}
	for _, t := range times {
		for _, q := range loadQuantiles {
			header = append(header, t.column+"_"+strings.Replace("p"+strconv.FormatFloat(q, 'g', -1, 64), "p100", "max", 1))
		}
	}
	header = append(header, load.TagRetried, "phase")
	out := csv.NewWriter(w)
	errs := []error{out.Write(header)}
	for _, second := range slices.Sorted(maps.Keys(seconds)) {
		tags := seconds[second]
		row := []string{strconv.Itoa(second)}
		for _, class := range loadClasses {
			row = append(row, countOf(tags[load.TagResponse+string(class)]))
		}
		for _, t := range times {
			for _, q := range loadQuantiles {
				cell := ""
				if h := tags[t.tag]; h != nil && h.TotalCount() > 0 {
					cell = strconv.FormatFloat(float64(h.ValueAtPercentile(q))/t.unit, 'f', 6, 64)
				}
				row = append(row, cell)
			}
		}
		errs = append(errs, out.Write(append(row, countOf(tags[load.TagRetried]), phasesOf(p, second))))
	}
	out.Flush()
	return errors.Join(append(errs, out.Error())...)
}

// phasesOf are the phases of a load that a second has a part of.
func phasesOf(p *load.Profile, second int) string {
	var in []string
	from, end := time.Duration(second)*time.Second, time.Duration(0)
	for _, phase := range []struct {
		name string
		d    time.Duration
	}{{"warm-up", p.Warmup}, {"measure", p.Measure}, {"tail", p.Tail}} {
		begin := end
		if end += phase.d; begin < from+time.Second && end > from {
			in = append(in, phase.name)
		}
	}
	return strings.Join(in, " and ")
}

// countOf is the number of values of a histogram, none if it is nil.
func countOf(h *hdrhistogram.PackedHistogram) string {
	if h == nil {
		return "0"
	}
	return strconv.FormatInt(h.TotalCount(), 10)
}

// answered writes a result as JSON, with its answer and without control characters.
func answered(w io.Writer, b answer.Brief, v any) error {
	return printable.WritingJSON(w, func(w io.Writer) error { return report.WriteAnswered(w, b, v) })
}
