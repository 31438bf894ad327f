package session

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/result"
)

// A first look has the fewest blocks with an interval, a load that is little for any program, and phases that show the CPU of a
// request. When Envoy is here and lookLimit has passed it is given up: the search for a rate names what is wrong with a program.
const (
	lookRate    = 100 // requests per second
	lookWarmup  = 300 * time.Millisecond
	lookMeasure = time.Second // the least that an experiment may have
	lookDrain   = 500 * time.Millisecond
	lookLimit   = 30 * time.Second
)

// FirstLook downloads Envoy, if it is the proxy to measure and not on this machine. Meanwhile it measures the reference proxy in its
// place, and calls show with the report. Without a download it does nothing. The error is of the download.
func (w *WeighStudy) FirstLook(ctx, kill context.Context, show func(*answer.Report)) error {
	if !w.firstLooks() {
		return nil
	}
	if _, err := fetch.Envoy().Find(ctx, fetch.Options{Offline: true}); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	fetched := make(chan error, 1)
	looking, end := context.WithCancel(ctx)
	defer end()
	begun := time.Now()
	go routine.Guarded(func() {
		_, err := fetch.Envoy().Find(ctx, fetch.Options{Log: w.Study.Program.Note})
		if err != nil {
			end()
		}
		time.AfterFunc(lookLimit-time.Since(begun), end)
		fetched <- err
	})()
	if r, err := w.look(looking, kill); err == nil {
		show(r)
	}
	return <-fetched
}

// firstLooks reports whether the reference proxy can take the place of Envoy.
func (w *WeighStudy) firstLooks() bool {
	f := w.file.Factors
	return slices.Equal(f.Mesh, []string{"none", "envoy"}) && slices.Equal(f.Protocol, []string{app.HTTP1}) &&
		len(w.file.Meshes) == 0 && !w.o.OnCluster() && !w.file.Application.TLS && w.file.Batch == nil
}

// look runs the experiment with the reference proxy, in a directory that is removed.
func (w *WeighStudy) look(ctx, kill context.Context) (r *answer.Report, err error) {
	study, err := w.lookStudy(ctx)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "tare-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	run, err := study.Open(ctx, filepath.Join(tmp, "run"), false)
	if err != nil {
		return nil, err
	}
	_, err = run.Trials(ctx, RunOptions{View: unseen{}, Kill: kill})
	if err = errors.Join(err, ctx.Err(), run.Dir.Close()); err != nil {
		return nil, err
	}
	d, err := result.Open(run.Dir.Path())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return answer.Analyze(d, compare.Options{})
}

// lookStudy is the experiment with the reference proxy.
func (w *WeighStudy) lookStudy(ctx context.Context) (*Study, error) {
	file := *w.file
	file.Factors.Mesh = []string{"none", experiment.ReferenceMesh}
	file.Factors.Rate = []float64{cmp.Or(w.o.Rate, lookRate)}
	file.Control, file.Blocks = false, repeated(minWeighBlocks)
	file.Phases = weighPhases{Prewarm: new(experiment.Duration), Warmup: experiment.Duration(lookWarmup), Measure: experiment.Duration(lookMeasure), Drain: experiment.Duration(lookDrain)}
	return w.Study.Program.studyOf(ctx, &file, w.Path)
}

// unseen shows no event.
type unseen struct{}

func (unseen) Event(result.Event) error { return nil }
