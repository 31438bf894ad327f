package engine

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/test/must"
)

// held runs a process with a profile that is held. It returns its input, its output and its error.
func held(ctx context.Context, t *testing.T, p load.Profile) (in *io.PipeWriter, out *load.Lines, ended chan error) {
	t.Helper()
	p.Hold = true
	stdin, in := io.Pipe()
	stdout, w := io.Pipe()
	ended = make(chan error, 1)
	go func() {
		err := Process(ctx, "test", stdin, w, io.Discard, Run)
		w.Close()
		ended <- err
	}()
	must.OK(t, json.NewEncoder(in).Encode(p))
	return in, load.NewLines(stdout), ended
}

// A held load opens its connections, announces that it is ready, and begins at the start that comes then.
func TestHeldLoad(t *testing.T) {
	t.Parallel()
	p := profile(rawServer(t, replying(helloResponse)))
	in, out, ended := held(t.Context(), t, p)
	line, err := out.Next()
	if err != nil || !line.Ready {
		t.Fatalf("first line %+v, %v", line, err)
	}
	start := time.Now().Add(time.Second).Round(0) // on a busy machine too
	must.OK(t, json.NewEncoder(in).Encode(load.Begin{Start: start}))
	r := must.Get(out.Report(nil))(t)
	if by := r.Started.Sub(start); by < -time.Millisecond || r.Classes[load.OK] != 250 || r.Connected != int64(p.Connections) {
		t.Errorf("begun %v after the start, %d connections open, %v", by, r.Connected, r.Classes)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A held load that gets its start late keeps it, if its warm-up is long enough: counters are read by it.
func TestHeldLoadWithALateStart(t *testing.T) {
	long(t)
	t.Parallel()
	p := profile(rawServer(t, replying(helloResponse)))
	p.Warmup = 4 * time.Second // on a busy machine too
	in, out, ended := held(t.Context(), t, p)
	if line, err := out.Next(); err != nil || !line.Ready {
		t.Fatalf("%+v, %v", line, err)
	}
	start := time.Now().Add(-200 * time.Millisecond).Round(0)
	must.OK(t, json.NewEncoder(in).Encode(load.Begin{Start: start}))
	r := must.Get(out.Report(nil))(t)
	if by := r.Started.Sub(start); by.Abs() > time.Millisecond || r.Intended != 250 || r.Whole.Sent != 2300 {
		t.Errorf("begun %v after the start, %d requests of 250 in the window, %d of 2300 in all", by, r.Intended, r.Whole.Sent)
	}
	if text := strings.Join(r.Warnings, " "); !strings.Contains(text, "after the agreed start, which it got late") || strings.Contains(r.Verdict, "agreed start") {
		t.Errorf("verdict %q, warnings %q", r.Verdict, r.Warnings)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A held load ends if no start comes.
func TestHeldLoadWithoutAStart(t *testing.T) {
	t.Parallel()
	server := rawServer(t, replying(helloResponse))
	for name, c := range map[string]struct {
		end  func(in *io.PipeWriter, cancel func())
		want string
	}{
		"the input ends": {func(in *io.PipeWriter, _ func()) { in.Close() }, "read the start of the load: EOF"},
		"no start in it": {func(in *io.PipeWriter, _ func()) { _, _ = io.WriteString(in, "{}") }, "it is absent"},
		"stopped":        {func(_ *io.PipeWriter, cancel func()) { cancel() }, "stopped before the load began"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, out, ended := held(ctx, t, profile(server))
			if line, err := out.Next(); err != nil || !line.Ready {
				t.Fatalf("%+v, %v", line, err)
			}
			c.end(in, cancel)
			must.Fail(t, <-ended, c.want)
		})
	}
}
