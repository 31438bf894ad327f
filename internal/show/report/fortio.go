package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/result"
)

// fortioResult is a result of `fortio load` as its JSON has it. Durations are in
// seconds, but for ActualDuration in nanoseconds. Written from the published
// form of the format.
type fortioResult struct {
	RunType           string
	Labels            string
	StartTime         time.Time
	RequestedQPS      string
	RequestedDuration string
	ActualQPS         float64
	ActualDuration    int64
	NumThreads        int
	Version           string
	DurationHistogram fortioHistogram
	RetCodes          map[string]int64
	URL               string `json:",omitempty"`
}

type fortioHistogram struct {
	Count       int64
	Min         float64
	Max         float64
	Sum         float64
	Avg         float64
	StdDev      float64
	Data        []fortioBucket
	Percentiles []fortioPercentile
}

type fortioBucket struct {
	Start, End, Percent float64
	Count               int64
}

type fortioPercentile struct{ Percentile, Value float64 }

var fortioQuantiles = []float64{50, 75, 90, 99, 99.9}

// exportFortio writes a JSON file a valid trial into dir, which `fortio report
// -data-dir` shows. The latencies are response times from the intended start.
func exportFortio(dir string, d *result.Dir, r *analysis.Report) error {
	records, err := d.Records()
	if err != nil {
		return fmt.Errorf("write results for fortio: %w", err)
	}
	n := 0
	for i := range records {
		record := &records[i]
		if !record.Valid || record.Load == nil {
			continue
		}
		h, err := analysis.TrialHistograms(d, record)
		if errors.Is(err, fs.ErrNotExist) || err == nil && h.Response == nil {
			continue // it has no histogram to show
		}
		if err != nil {
			return fmt.Errorf("write results for fortio: %w", err)
		}
		b, err := json.MarshalIndent(fortioOf(r, record, h.Response), "", "  ")
		if err != nil {
			return fmt.Errorf("write results for fortio: %w", err)
		}
		// Fortio sorts its list by name: the name begins with the time, as in its own files.
		name := record.Load.Start.UTC().Format("2006-01-02-150405") + "_" + FileName(record.ID) + ".json"
		if err := os.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o644); err != nil {
			return fmt.Errorf("write results for fortio: %w", err)
		}
		n++
	}
	if n == 0 {
		return errors.New("write results for fortio: no valid trial has a latency log")
	}
	return nil
}

func fortioOf(r *analysis.Report, record *result.Record, h *hdrhistogram.Histogram) fortioResult {
	l := record.Load
	seconds := l.MeasureSeconds
	if seconds <= 0 {
		seconds = l.End.Sub(l.Start).Seconds()
	}
	f := fortioResult{
		RunType: "HTTP", Labels: oneLine(r.Experiment + " " + record.ID), StartTime: l.Start, RequestedQPS: "max",
		RequestedDuration: time.Duration(seconds * float64(time.Second)).String(), ActualDuration: int64(seconds * 1e9),
		NumThreads: l.Connections, Version: "tare " + r.Setup.Tare, DurationHistogram: fortioHistogramOf(h), RetCodes: l.Statuses,
	}
	if l.AskedRate > 0 {
		f.RequestedQPS = strconv.FormatFloat(l.AskedRate, 'g', -1, 64)
	}
	if seconds > 0 {
		f.ActualQPS = float64(l.Completed) / seconds
	}
	if f.RetCodes == nil {
		f.RetCodes = map[string]int64{"200": l.Classes["2xx"]}
	}
	return f
}

// fortioBuckets bounds the bars of a page, and neighbours are joined.
const fortioBuckets = 200

func fortioHistogramOf(h *hdrhistogram.Histogram) fortioHistogram {
	n := h.TotalCount()
	out := fortioHistogram{
		Count: n, Min: float64(h.Min()) / 1e9, Max: float64(h.Max()) / 1e9, Avg: h.Mean() / 1e9, StdDev: h.StdDev() / 1e9,
	}
	out.Sum = out.Avg * float64(n)
	for _, p := range fortioQuantiles {
		out.Percentiles = append(out.Percentiles, fortioPercentile{p, float64(h.ValueAtPercentile(p)) / 1e9})
	}
	var bars []hdrhistogram.Bar
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			bars = append(bars, b)
		}
	}
	width := (len(bars) + fortioBuckets - 1) / fortioBuckets
	seen := int64(0)
	for group := range slices.Chunk(bars, max(1, width)) {
		count := int64(0)
		for _, b := range group {
			count += b.Count
		}
		seen += count
		out.Data = append(out.Data, fortioBucket{
			Start: max(out.Min, float64(group[0].From)/1e9), End: min(out.Max, float64(group[len(group)-1].To)/1e9),
			Percent: 100 * float64(seen) / float64(n), Count: count,
		})
	}
	return out
}

// FileName is s with every character that a file's name cannot have replaced.
func FileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}
