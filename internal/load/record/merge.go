package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
)

// Merge merges the reports of all parts of one load (see [load.Profile.Parts]), which
// must have run at the same time. Counts are added and distributions merged bucket
// by bucket. The verdict judges the whole and every part.
func Merge(reports []load.Report) (load.Report, error) {
	if len(reports) == 0 {
		return load.Report{}, errors.New("merge load reports: there are none")
	}
	sum := newTotals()
	m := reports[0]
	m.Verdict, m.Warnings, m.Parts, m.Generator = "ok", []string{}, nil, load.Generator{OK: true}
	first, last, gapDistance := m.Started, m.Started, 0.0
	for i := range reports {
		r := &reports[i]
		t, err := totalsOf(r)
		if err != nil {
			return load.Report{}, fmt.Errorf("merge load report %d: %w", i, err)
		}
		sum.add(&t)
		if r.Started.Before(first) {
			first = r.Started
		}
		if r.Started.After(last) {
			last = r.Started
		}
		if ends := m.MeasureEnd.Compare(r.MeasureEnd); m.AskedRequests > 0 && ends < 0 || m.AskedRequests == 0 && ends > 0 {
			m.MeasureEnd = r.MeasureEnd
		}
		m.ThreadCPURatio = max(m.ThreadCPURatio, r.ThreadCPURatio)
		gapDistance = max(gapDistance, r.GapDistance)
		if r.Verdict != "ok" {
			m.Warn("part %d: %s", i, r.Verdict)
		}
	}
	fill(&m, &sum)
	var err error
	if m.Routes, err = mergeRoutes(reports); err != nil {
		return load.Report{}, fmt.Errorf("merge load reports: %w", err)
	}
	m.Slices = mergeSlices(reports)
	m.GapDistance = gapDistance // unknown for a merged schedule: the worst part's
	if window := m.MeasureEnd.Sub(m.MeasureStart).Seconds(); window > 0 {
		m.Rate = float64(sum.completed) / cmp.Or(m.LoadedSeconds, window)
	}
	judge(&m, &sum, false)
	judgeClocks(&m, reports)
	if skew := last.Sub(first); skew > time.Millisecond {
		m.Limit("the parts started %v apart", skew.Round(time.Microsecond))
	}
	return m, nil
}

// totalsOf converts a report back to totals.
func totalsOf(r *load.Report) (Totals, error) {
	t := newTotals()
	if r.Parts == nil {
		return t, errors.New("the report has no distributions: it was not made as one of several parts")
	}
	err := t.each(r.Parts, func(h **hdrhistogram.Histogram, encoded *[]byte) (err error) {
		if len(*encoded) == 0 { // of an earlier version
			return nil
		}
		*h, err = hdrhistogram.Decode(*encoded)
		return err
	})
	if err == nil {
		err = t.failed.decode(r.Parts.Failed)
	}
	if err != nil {
		return t, fmt.Errorf("decode distribution: %w", err)
	}
	for _, c := range t.counters(r) {
		*c[0] = *c[1]
	}
	if w := r.Whole; w != nil {
		t.whole = runCounts{w.Sent, w.Unanswered, w.Failed, w.Retried}
	}
	t.processCPU = time.Duration(r.CPUSeconds * 1e9)
	t.Spin = time.Duration(r.SpinUS * 1e3)
	for i, name := range classNames {
		t.classes[i] = r.Classes[name]
	}
	t.TLS = r.TLS
	for k := range load.FailureCount {
		t.kinds[k], t.lost[k] = r.Errors[k.String()], r.Lost[k.String()]
		t.OpenKinds[k], t.reasons[k] = r.ConnectErrors[k.String()], r.Reasons[k.String()]
	}
	t.unsuccessful, t.details = unsuccessfulOf(r.Result.Failures)
	for text, n := range r.Addresses {
		if addr, err := netip.ParseAddrPort(text); err == nil {
			t.addresses[addr] = n
		}
	}
	for code, n := range r.Statuses {
		if c := load.StatusOf(code); c > 0 {
			t.statuses[c] = n
		}
	}
	return t, nil
}

// MergeLogs merges the interval logs of all parts into w. It adds the counts of
// lines of the same interval and tag. start is the start of the load.
func MergeLogs(w io.Writer, start time.Time, logs ...io.Reader) error {
	all := map[time.Duration]*logInterval{}
	for i, log := range logs {
		err := hdrlog.ReadIntervals(log, func(from, to time.Duration, tag string, h *hdrhistogram.PackedHistogram) error {
			if all[from] == nil {
				all[from] = &logInterval{to: to}
			}
			place := all[from].tagged(tag)
			if place == nil {
				return fmt.Errorf("unknown tag %q", tag)
			}
			if *place == nil {
				*place = h
				return nil
			}
			return hdrlog.Add(*place, h)
		})
		if err != nil {
			return fmt.Errorf("merge interval log %d: %w", i, err)
		}
	}
	return writeLog(w, start, all)
}

// tagged returns the histogram of a tag, or nil for an unknown tag.
func (l *logInterval) tagged(tag string) **hdrhistogram.PackedHistogram {
	places := map[string]**hdrhistogram.PackedHistogram{load.TagLateness: &l.lateness, load.TagRetried: &l.retried}
	for c, name := range classNames {
		places[load.TagResponse+string(name)], places[load.TagService+string(name)] = &l.response[c], &l.service[c]
	}
	return places[tag]
}
