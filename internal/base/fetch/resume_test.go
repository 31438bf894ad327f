package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

func TestResumeWithinARun(t *testing.T) {
	wheel := goodWheel(t)
	ix := serve(t, wheel, func(w http.ResponseWriter, _ *http.Request, n int) bool { return n == 1 && cut(wheel)(w) })
	fakePip(t, located(ix.URL), "exit 9")
	must.Get(proxy(wheel).Find(t.Context(), options(t, t.TempDir())))(t)
	want := fmt.Sprintf("bytes=%d-", len(wheel)/2)
	if got := ix.requested(); len(got) != 2 || got[0] != "" || got[1] != want {
		t.Errorf("requested ranges are %q, want none and %q", got, want)
	}
}

func TestResumeByTheNextRun(t *testing.T) {
	wheel := goodWheel(t)
	var healthy atomic.Bool
	ix := serve(t, wheel, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		switch {
		case healthy.Load():
			return false
		case n == 1:
			return cut(wheel)(w)
		}
		panic(http.ErrAbortHandler)
	})
	fakePip(t, located(ix.URL), offline)
	p, dir := proxy(wheel), t.TempDir()
	_, err := p.Find(t.Context(), options(t, dir))
	expect(t, err, "fetch tare-test-proxy 1.2.3", "TARE_TEST_PROXY")
	healthy.Store(true)
	before := len(ix.requested())
	must.Get(p.Find(t.Context(), options(t, dir)))(t)
	want := fmt.Sprintf("bytes=%d-", len(wheel)/2)
	if got := ix.requested()[before:]; len(got) != 1 || got[0] != want {
		t.Errorf("requested ranges are %q, want %q alone", got, want)
	}
}

// The kept part may have any content. Only the pinned file is unpacked.
func TestKeptPart(t *testing.T) {
	wheel := goodWheel(t)
	noRanges := func(w http.ResponseWriter, _ *http.Request, _ int) bool { _, _ = w.Write(wheel); return true }
	misplaced := func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(wheel)-1, len(wheel)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(wheel)
			return true
		}
		return false
	}
	for name, c := range map[string]struct {
		part     []byte
		answer   func(http.ResponseWriter, *http.Request, int) bool
		requests int
	}{
		"the beginning":         {wheel[:1000], nil, 1},
		"all":                   {wheel, nil, 0},
		"more than all":         {append(bytes.Clone(wheel), 'x'), nil, 2},
		"something else":        {bytes.Repeat([]byte("x"), 1000), nil, 2},
		"something else, whole": {bytes.Repeat([]byte("x"), len(wheel)), nil, 2},
		"no ranges":             {wheel[:1000], noRanges, 1},
		"wrong range":           {wheel[:1000], misplaced, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ix := serve(t, wheel, c.answer)
			fakePip(t, located(ix.URL), "exit 9")
			p, dir := proxy(wheel), t.TempDir()
			s := newSlot(p, dir)
			must.OK(t, os.MkdirAll(s.dir, 0o755))
			write(t, s.part(), string(c.part), 0o644)
			must.Get(p.Find(t.Context(), options(t, dir)))(t)
			if got := ix.requested(); len(got) != c.requests {
				t.Errorf("requested ranges are %q, want %d requests", got, c.requests)
			}
		})
	}
}
