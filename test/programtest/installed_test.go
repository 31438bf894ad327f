package programtest

import (
	"cmp"
	"flag"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// recorder records how a test ends first, and continues.
type recorder struct {
	testing.TB
	end string
}

func (*recorder) Helper()        {}
func (r *recorder) Fatal(...any) { r.end = cmp.Or(r.end, "failed") }
func (r *recorder) Skip(...any)  { r.end = cmp.Or(r.end, "skipped") }

// A test without its program fails in CI alone, and not with -short.
func TestMissingProgram(t *testing.T) {
	short := flag.Lookup("test.short").Value.String()
	t.Cleanup(func() { _ = flag.Set("test.short", short) })
	for _, c := range []struct{ ci, short, end string }{
		{"true", "false", "failed"}, {"true", "true", "skipped"}, {"", "false", "skipped"}, {"", "true", "skipped"},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv("TARE_CHROMIUM", "no-such-program")
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		must.OK(t, flag.Set("test.short", c.short))
		for name, of := range map[string]func(testing.TB) string{"Chromium": Chromium, "packages": PagePackages} {
			r := &recorder{}
			if of(r); r.end != c.end {
				t.Errorf("%s, CI=%q, short %s: %q, want %s", name, c.ci, c.short, r.end, c.end)
			}
		}
	}
}
