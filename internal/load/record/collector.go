package record

import (
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/load"
)

// Collector merges the workers' data once a second. It is the only other goroutine
// that is active while load runs.
type Collector struct {
	profile  *load.Profile
	progress func(load.Progress)
	workers  int

	in        chan *interval
	spare     chan *interval
	ticks     chan tick
	spareLive chan *hdrhistogram.Histogram
	done      chan struct{}
	idle      sync.WaitGroup

	log     map[time.Duration]*logInterval // by their beginning
	pending map[int]*pendingTick
	next    int // the second to be reported next
}

// pendingTick waits for the other workers' share of the same second.
type pendingTick struct {
	tick
	seen int
}

func NewCollector(p *load.Profile, progress func(load.Progress)) *Collector {
	if progress == nil {
		progress = func(load.Progress) {}
	}
	return &Collector{
		profile: p, progress: progress,
		// Room for some seconds of every worker: a worker never waits for the collector.
		in: make(chan *interval, 64*p.Workers), spare: make(chan *interval, 64*p.Workers),
		ticks: make(chan tick, 64*p.Workers), spareLive: make(chan *hdrhistogram.Histogram, 64*p.Workers),
		done: make(chan struct{}),
		log:  map[time.Duration]*logInterval{}, pending: map[int]*pendingTick{},
	}
}

// Recorder returns one worker's recorder.
func (c *Collector) Recorder() Recorder {
	from := int64(c.profile.Warmup)
	t := newTotals()
	paths, _ := c.profile.Paths()
	t.routes = make([]routeTotal, len(paths))
	t.slices = newSliceCounts(c.profile.Slices)
	if c.profile.AnswersPath != "" {
		t.Versions = load.NewVersions()
	}
	return Recorder{
		Window:   [2]int64{from, from + int64(c.profile.Measure)},
		log:      intervalsOf(c.profile.Warmup, c.profile.Measure),
		finished: c.in, spare: c.spare, ticks: c.ticks, spareLive: c.spareLive,
		live:       tick{latency: newLive()},
		closedLoop: c.profile.Rate == 0, wanted: c.profile.Success(),
		Totals: t,
	}
}

// Start starts to collect from a number of workers.
func (c *Collector) Start(workers int) {
	c.workers = workers
	c.idle.Go(func() {
		for {
			select {
			case s := <-c.in:
				c.merge(s)
			case t := <-c.ticks:
				c.tick(t)
			case <-c.done:
				c.drain()
				return
			}
		}
	})
}

// Finish collects the rest, once every worker has returned.
func (c *Collector) Finish() {
	close(c.done)
	c.idle.Wait()
}

func (c *Collector) drain() {
	for {
		select {
		case s := <-c.in:
			c.merge(s)
		case t := <-c.ticks:
			c.tick(t)
		default:
			return
		}
	}
}

func (c *Collector) merge(s *interval) {
	sum := c.log[s.from]
	if sum == nil {
		sum = &logInterval{to: s.to}
		c.log[s.from] = sum
	}
	sum.merge(s)
	s.reset()
	select {
	case c.spare <- s:
	default:
	}
}

func (c *Collector) tick(t tick) {
	p := c.pending[t.index]
	if p == nil {
		p = &pendingTick{tick: tick{index: t.index, latency: newLive()}}
		c.pending[t.index] = p
	}
	p.seen++
	p.intended += t.intended
	p.completed += t.completed
	p.errors += t.errors
	p.latency.Merge(t.latency)
	t.latency.Reset()
	select {
	case c.spareLive <- t.latency:
	default:
	}
	for c.pending[c.next] != nil && c.pending[c.next].seen >= c.workers {
		c.emit(&c.pending[c.next].tick)
		delete(c.pending, c.next)
		c.next++
	}
}

func (c *Collector) emit(t *tick) {
	c.progress(load.Progress{
		Second: t.index, Phase: phaseOf(c.profile, t.index),
		Intended: t.intended, Completed: t.completed, Errors: t.errors,
		P50MS: float64(t.latency.ValueAtPercentile(50)) / 1e6,
		P99MS: float64(t.latency.ValueAtPercentile(99)) / 1e6,
	})
}

// phaseOf returns the phase at the beginning of a second.
func phaseOf(p *load.Profile, second int) string {
	at := time.Duration(second) * time.Second
	switch {
	case at < p.Warmup:
		return "warm-up"
	case at < p.Warmup+p.Measure:
		return "measure"
	}
	return "tail"
}

func (s *interval) reset() {
	for c := range classCount {
		for _, h := range []*hdrhistogram.Histogram{s.response[c], s.service[c]} {
			if h != nil && h.TotalCount() > 0 {
				h.Reset()
			}
		}
	}
	s.lateness.Reset()
	if s.retried != nil {
		s.retried.Reset()
	}
}

// WriteLog writes the interval log, whose times count from t0.
func (c *Collector) WriteLog(w io.Writer, t0 time.Time) error { return writeLog(w, t0, c.log) }
