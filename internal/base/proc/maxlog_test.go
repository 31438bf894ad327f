package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// A long log keeps its beginning and its end. A shorter one is left alone.
func TestShorten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var b bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	must.OK(t, os.WriteFile(path, b.Bytes(), 0o600))
	for _, limit := range []int64{1 << 20, 4 << 10} {
		must.OK(t, shorten(path, limit))
	}
	got := must.Get(os.ReadFile(path))(t)
	if d := difftest.Wrong("len(got) > 3<<10", len(got) > 3<<10, `!bytes.HasPrefix(got, []byte("line 0\n"))`, !bytes.HasPrefix(got, []byte("line 0\n")), `!bytes.HasSuffix(got, []byte("line 9999\n"))`, !bytes.HasSuffix(got, []byte("line 9999\n")), `!bytes.Contains(got, []byte("bytes were removed here"))`, !bytes.Contains(got, []byte("bytes were removed here"))); d != "" {
		t.Errorf("%s: %d bytes: %.40q … %q", d, len(got), got, got[max(0, len(got)-40):])
	}
}

// A chatty process does not fill the disk, and its last lines are known.
func TestMaxLog(t *testing.T) {
	c := child("lines")
	c.Log, c.MaxLog = filepath.Join(t.TempDir(), "log"), 200
	p := start(t, c)
	if err := p.Wait(); err == nil {
		t.Fatal("exit status 0, want 3")
	}
	eventually(t, "the log is short", func() bool { info, err := os.Stat(c.Log); return err == nil && info.Size() < 400 })
	if tail := p.Tail(1); len(tail) != 1 || tail[0] != "last words" {
		t.Errorf("it last wrote %q", tail)
	}
}
