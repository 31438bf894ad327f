package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/record"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// Three processes' worth of parts, started at one agreed instant, share 70
// requests/s exactly, and their merged report equals the report of one load.
func TestPartsMerge(t *testing.T) {
	t.Parallel()
	url := rawServer(t, replying(helloResponse))
	dir := t.TempDir()
	const parts = 3
	var (
		reports [parts]load.Report
		paths   [parts]string
		running sync.WaitGroup
	)
	start := time.Now().Add(200 * time.Millisecond)
	for i := range parts {
		paths[i] = filepath.Join(dir, fmt.Sprint(i))
		running.Go(func() {
			p := profile(url)
			p.Rate, p.Warmup, p.Tail, p.Measure = 70, 0, 0, 2*time.Second
			p.Part, p.Parts, p.Start, p.HDRPath = i, parts, start, paths[i]
			var err error
			if reports[i], err = Run(t.Context(), p, nil); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	m := must.Get(record.Merge(reports[:]))(t)
	if d := difftest.Of("m.Intended", m.Intended, 140, "m.Requests", m.Requests, 140, "m.Classes[load.OK]", m.Classes[load.OK], 140, "m.ResponseMS.Count", m.ResponseMS.Count, 140, "m.LatenessUS.Count", m.LatenessUS.Count, 140, `m.Statuses["200"]`, m.Statuses["200"], 140); d != "" {
		t.Errorf("%s: %+v", d, m)
	}
	worst := 0.0
	for _, r := range reports {
		worst = max(worst, r.ResponseMS.Max)
	}
	if m.ResponseMS.Max != worst {
		t.Errorf("the merged maximum is %v, the largest of the parts %v", m.ResponseMS.Max, worst)
	}
	var merged bytes.Buffer
	logs := make([]*os.File, parts)
	for i, path := range paths {
		logs[i] = must.Get(os.Open(path))(t)
		defer logs[i].Close()
	}
	must.OK(t, record.MergeLogs(&merged, start, logs[0], logs[1], logs[2]))
	counts := map[string]int64{}
	must.OK(t, hdrlog.ReadSeconds(&merged, func(second int, tag string, h *hdrhistogram.PackedHistogram) error {
		counts[fmt.Sprint(second, tag)] += h.TotalCount()
		return nil
	}))
	if counts["0response.2xx"] != 70 || counts["1response.2xx"] != 70 || len(counts) != 6 {
		t.Errorf("%v", counts)
	}
	reports[1].Parts = nil
	must.Fail(t, must.Err(record.Merge(reports[:])), "load report 1", "a report without distributions")
}
