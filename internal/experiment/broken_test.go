package experiment_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "update the golden files and the table in docs/reference/experiment-file.md")

const brokenFiles = "testdata/bad.txtar"

// alsoTheSchema marks files that the JSON Schema refuses as well.
const alsoTheSchema = "(also the schema)\n"

type brokenFile struct {
	name, want string
	data       []byte
	schema     bool // the schema refuses it too
}

func broken(t testing.TB) []brokenFile {
	t.Helper()
	a := must.Get(txtar.ParseFile(brokenFiles))(t)
	if len(a.Files)%2 != 0 {
		t.Fatalf("%s: %d parts, expected pairs", brokenFiles, len(a.Files))
	}
	var all []brokenFile
	for i := 0; i < len(a.Files); i += 2 {
		f, w := a.Files[i], a.Files[i+1]
		name := strings.TrimSuffix(f.Name, ".yaml")
		if w.Name != name+".want" {
			t.Fatalf("%s: %s follows %s", brokenFiles, w.Name, f.Name)
		}
		want, schema := strings.CutPrefix(string(w.Data), alsoTheSchema)
		all = append(all, brokenFile{name: name, want: want, data: f.Data, schema: schema})
	}
	return all
}

// printed is the output of the command line for an error.
func printed(err error) string {
	var ps strict.Problems
	if !errors.As(err, &ps) {
		return fmt.Sprintf("not a list of problems: %v\n", err)
	}
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintln(&b, p.Error())
		if p.Tip != "" {
			fmt.Fprintln(&b, "  hint: "+p.Tip)
		}
	}
	return b.String()
}

func TestBroken(t *testing.T) {
	files := broken(t)
	if len(files) < 45 {
		t.Fatalf("only %d broken files", len(files))
	}
	if *update {
		write(t, files)
		return
	}
	for _, b := range files {
		t.Run(b.name, func(t *testing.T) {
			_, err := experiment.Parse("bad.yaml", b.data, known)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := printed(err); got != b.want {
				t.Errorf("got\n%swant\n%s", got, b.want)
			}
		})
	}
}

func write(t *testing.T, files []brokenFile) {
	t.Helper()
	old := must.Get(txtar.ParseFile(brokenFiles))(t)
	s := compiled(t)
	a := txtar.Archive{Comment: old.Comment}
	for _, b := range files {
		_, err := experiment.Parse("bad.yaml", b.data, known)
		want := "accepted\n"
		if err != nil {
			want = printed(err)
		}
		var v any
		if yaml.Unmarshal(b.data, &v) == nil && !hasNonStringKeys(v) && jsonable(v) && against(t, s, b.data) != nil {
			want = alsoTheSchema + want
		}
		a.Files = append(a.Files, txtar.File{Name: b.name + ".yaml", Data: b.data}, txtar.File{Name: b.name + ".want", Data: []byte(want)})
	}
	must.OK(t, os.WriteFile(brokenFiles, txtar.Format(&a), 0o644))
}

const header = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\n"

// Files that a text archive cannot hold.
func TestBrokenBytes(t *testing.T) {
	large := bytes.Repeat([]byte("# a comment that goes on and on\n"), 10<<20/32)
	for _, c := range []struct{ name, data, want string }{
		{"latin-1", header + "factors: {mesh: [n\xf6ne]}\n", "bad.yaml:4:19: byte 0xf6 is not UTF-8\n  hint: save the file as UTF-8\n"},
		{"utf-16", "\xff\xfea\x00p\x00i\x00", "bad.yaml:1:1: byte 0xff is not UTF-8\n  hint: save the file as UTF-8\n"},
		{"nul", header + "factors: {mesh: [none\x00]}\n", "bad.yaml:4:22: control character U+0000\n  hint: remove it; in a quoted string write \\x00\n"},
		{"escape", header + "# ünïcode\nfactors: {mesh: [\x1b[31mnone]}\n", "bad.yaml:5:18: control character U+001B\n  hint: remove it; in a quoted string write \\x1b\n"},
		{"gzip", "\x1f\x8b\x08\x00", "bad.yaml:1:1: control character U+001F\n  hint: remove it; in a quoted string write \\x1f\n"},
		{"10 MB", string(large), "bad.yaml:1:1: the file is larger than 1048576 bytes\n  hint: is this the right file?\n"},
		{"deep lists", header + "factors: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "bad.yaml:4:41: nested more than 32 deep\n"},
		{"deep mappings", header + "factors: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000), "bad.yaml:4:134: nested more than 32 deep\n"},
		{"many mistakes", header + "factors: {rate: [" + strings.Repeat("x,", 20_000) + "x]}\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := experiment.Parse("bad.yaml", []byte(c.data), known)
			if err == nil {
				t.Fatal("accepted")
			}
			got := printed(err)
			if c.want != "" && got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if n := strings.Count(got, "\n"); n > 220 {
				t.Errorf("got %d lines", n)
			}
		})
	}
}

// A file above the limit is refused before it is read: this one is sparse.
func TestLargeFileIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	f, err := os.Create(path)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, f.Truncate(1<<40))
	_, err = experiment.ReadRecord(path)
	if want := path + ":1:1: the file is larger than 1048576 bytes"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestReadWithoutFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := experiment.ReadRecord(filepath.Join(dir, "nowhere.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	must.Fail(t, must.Err(experiment.ReadRecord(dir)), "a directory", "a directory")
}

func FuzzDecode(f *testing.F) {
	for _, b := range broken(f) {
		f.Add(b.data)
	}
	for _, name := range []string{"testdata/good/full.yaml", "../../examples/quickstart.yaml"} {
		data := must.Get(os.ReadFile(name))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := experiment.Parse("fuzz.yaml", data, known)
		if err != nil {
			var ps strict.Problems
			if !errors.As(err, &ps) {
				t.Fatalf("not a list of problems: %v", err)
			}
			for _, p := range ps {
				if d := difftest.Wrong("p.Line < 1", p.Line < 1, "p.Column < 1", p.Column < 1, `strings.Contains(p.Message, "cannot be decoded")`, strings.Contains(p.Message, "cannot be decoded"), `strings.Contains(p.Message, "\n")`, strings.Contains(p.Message, "\n")); d != "" {
					t.Fatalf("%s: %#v", d, p)
				}
			}
			return
		}
		sameAfterRendering(t, e, shipped())
	})
}
