package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

const (
	stopRate  = 1000
	stopAfter = 1300 * time.Millisecond // of the generator's start, in its measure window
)

// slowerThan are the response times whose counts are held against the schedule.
var slowerThan = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond}

// backlog is the most that the server may take, in seconds, for what waited.
const backlog = 0.05

func stopProfile(url string) load.Profile {
	p := profile(url)
	p.Rate, p.Arrivals = stopRate, load.Constant
	p.Warmup, p.Measure, p.Drain = 500*time.Millisecond, 3*time.Second, 3*time.Second
	return p
}

// stopLines: a server that does nothing for one second. Every request that was
// due in it must have been counted, with the time it waited.
func stopLines(ctx context.Context, b *bench) []line {
	l := line{figure: "a server that stops for 1 s, 1,000 requests/s: tare", target: "the whole second, exactly"}
	stop := func(after time.Duration) func() error {
		return func() error {
			if err := pass(ctx, after); err != nil {
				return err
			}
			_, err := b.stamp.order(ctx, "/_pause")
			return err
		}
	}
	dir, err := os.MkdirTemp("", "benchload-")
	if err == nil {
		defer os.RemoveAll(dir)
		p := stopProfile(b.stamp.url)
		p.HDRPath = filepath.Join(dir, "log.hdr")
		var t pacedRun
		if t, err = b.paced(ctx, "tare", p, b.stamp, stop(stopAfter)); err == nil {
			err = l.judgeStop(t, p)
		}
	}
	if err != nil {
		l.verdict, l.compare = failed, why(err)
	}
	lines := []line{l}
	for _, peer := range []string{"fortio", "vegeta", "oha", "wrk2"} {
		l := line{figure: "  the same: " + peer, verdict: reported}
		if b.generator(peer) == nil {
			l.compare = why(nil)
			lines = append(lines, l)
			continue
		}
		b.note("stop: %s", peer)
		after := stopAfter
		if peer == "wrk2" {
			after += 10 * time.Second // its calibration
		}
		t, err := b.paced(ctx, peer, stopProfile(b.stamp.url), b.stamp, stop(after))
		if err != nil {
			l.verdict, l.compare = failed, why(err)
		} else {
			l.ours = fmt.Sprintf("p90 %.0f ms, p99.9 %.0f ms", t.p90/1e3, t.p999/1e3)
			l.compare = fmt.Sprintf("%d requests counted", t.requests)
		}
		lines = append(lines, l)
	}
	return lines
}

// judgeStop compares tare's counts with those expected from the schedule and the
// server's own clock.
func (l *line) judgeStop(t pacedRun, p load.Profile) error {
	h, err := responses(p.HDRPath)
	if err != nil {
		return err
	}
	r := t.report
	pause := time.Duration(t.server.ResumedAt - t.server.PausedAt)
	want := int64(math.Round(p.Rate * p.Measure.Seconds()))
	exact := r.Intended == want && r.Requests == want && r.Classes[load.OK] == want
	l.compare = fmt.Sprintf("stopped %.1f ms;", pause.Seconds()*1e3)
	for _, limit := range slowerThan {
		n, due := countAbove(h, limit), (pause-limit).Seconds()*p.Rate
		l.compare += fmt.Sprintf(" > %d ms: %d (%.0f due)", limit.Milliseconds(), n, due)
		// At least the requests due in it, plus those sent while the server
		// worked off its backlog.
		exact = exact && float64(n) >= due-1 && float64(n) <= due+backlog*p.Rate
	}
	// The fourth slowest of three thousand was due three gaps after the stop.
	slow := pause.Seconds()*1e3 - 3
	exact = exact && math.Abs(r.ResponseMS.P999-slow) <= 5
	l.ours = fmt.Sprintf("%d of %d counted, p90 %.0f ms, p99.9 %.0f ms", r.Requests, want, r.ResponseMS.P90, r.ResponseMS.P999)
	// One in three requests was due in the stop: the slowest tenth ends there.
	l.peer = fmt.Sprintf("must be p90 %.0f ms, p99.9 %.0f ms", pause.Seconds()*1e3-1e3*0.1*float64(want)/p.Rate, slow)
	l.verdict = yes(exact)
	return nil
}

// responses merges the response times of the answered requests of an interval log.
func responses(path string) (*hdrhistogram.Histogram, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := hdrhistogram.New(1000, int64(time.Minute), 3)
	log := hdrhistogram.NewHistogramLogReader(bytes.NewReader(b))
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			return nil, err
		}
		if h == nil {
			break
		}
		if h.Tag() == load.TagResponse+string(load.OK) {
			all.Merge(h)
		}
	}
	if all.TotalCount() == 0 {
		return nil, errors.New("the interval log has no response times")
	}
	return all, nil
}

func countAbove(h *hdrhistogram.Histogram, limit time.Duration) (n int64) {
	for _, bar := range h.Distribution() {
		if bar.From >= int64(limit) {
			n += bar.Count
		}
	}
	return n
}
