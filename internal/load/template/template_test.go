package template

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// users has a byte order mark, quotes and a comma in a value.
const users = "\ufeffid,name\n1,Ann\n2,\"Bo \"\"B\"\" O, jr\"\n3,Cy\n"

// usersFile writes the file and returns its directory.
func usersFile(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "users.csv"), []byte(users), 0o600))
	return dir
}

// written is the text of requests 1 to n.
func written(t testing.TB, text string, use Use, seed uint64, n int) (all []string) {
	t.Helper()
	r := Reader{Dir: usersFile(t)}
	must.OK(t, r.Check(text, use, strict.Position{File: "f", Line: 1, Column: 1}))
	compiled, _, err := r.Data().Compile(text, use, 0)
	must.OK(t, err)
	for i := range n {
		all = append(all, string(compiled.Append(nil, &Values{Seed: seed, Number: int64(i + 1)})))
	}
	return all
}

func TestValues(t *testing.T) {
	for _, test := range []struct {
		text string
		use  Use
		want string // of the first requests, with |
	}{
		{`n={{seq}}, {{ seq }}.`, Body, "n=1, 1.|n=2, 2.|n=3, 3.|n=4, 4."},
		{`{{csv "users.csv" "id"}} {{csv "users.csv" "name"}}`, Body, `1 Ann|2 Bo "B" O, jr|3 Cy|1 Ann`},
		{`/u/{{csv "users.csv" "name"}}?q=a b"&n={{seq}}`, URL, `/u/Ann?q=a%20b%22&n=1|/u/Bo%20%22B%22%20O%2C%20jr?q=a%20b%22&n=2|/u/Cy?q=a%20b%22&n=3|/u/Ann?q=a%20b%22&n=4`},
		{`{{"{{"}}uuid}} {{random 7 7}} {{random -3 -3}}`, Body, "{{uuid}} 7 -3|{{uuid}} 7 -3|{{uuid}} 7 -3|{{uuid}} 7 -3"},
		{``, Header, "|||"},
	} {
		if got := strings.Join(written(t, test.text, test.use, 5, 4), "|"); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", test.text, got, test.want)
		}
	}
}

// Random values depend on the seed alone, differ between requests, expressions and seeds, and reach
// both ends of their range. Columns of one file have the same random row.
func TestRandomValues(t *testing.T) {
	const text = `{{uuid}} {{uuid}} {{random 1 3}} {{csv "users.csv" "id" random}}{{csv "users.csv" "name" random}}`
	const n = 1000
	first := written(t, text, Body, 1, n)
	if again := written(t, text, Body, 1, n); fmt.Sprint(first) != fmt.Sprint(again) {
		t.Error("the same seed has other values")
	}
	uuids, numbers, rows := map[string]bool{}, map[string]int{}, map[string]int{}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, line := range append(first, written(t, text, Body, 2, n)...) {
		words := strings.SplitN(line, " ", 4)
		for _, id := range words[:2] {
			if uuids[id] || !form.MatchString(id) {
				t.Fatalf("uuid %s", id)
			}
			uuids[id] = true
		}
		numbers[words[2]]++
		rows[words[3]]++
	}
	for _, counts := range []map[string]int{numbers, rows} {
		if len(counts) != 3 {
			t.Errorf("%v", counts)
		}
		for value, count := range counts {
			if count < 2*n/3*8/10 { // five standard deviations
				t.Errorf("%s: %d of %d", value, count, 2*n)
			}
		}
	}
	if rows[`2Bo "B" O, jr`] == 0 {
		t.Errorf("columns of different rows: %v", rows)
	}
}

func TestErrors(t *testing.T) {
	dir := usersFile(t)
	for name, content := range map[string]string{"empty.csv": "id\n", "broken.csv": "id\n1\n\"2\n", "twice.csv": "id,id\n1,2\n", "lines.csv": "id\nfine\n\"a\nb\"\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, test := range []struct {
		text, want, hint string
		use              Use
	}{
		{"a\n  {{uid}}", `f:11:3: unknown expression "uid"`, "did you mean uuid?", Body},
		{"x{{uuid", "f:10:6: the expression has no }}", `{{"{{"}} is {{ as text`, Body},
		{"{{}}", `f:10:5: "" is not an expression`, "known: csv, now, random, seq, uuid", Body},
		{"{{random 3 1}}", `f:10:5: "random 3 1" has other arguments than random`, "write {{random 1 100}}", Body},
		{"{{random 1 9223372036854775807}}", `f:10:5: "random 1 9223372036854775807" has other arguments than random`, "write {{random 1 100}}", Body},
		{"{{seq 3}}", `f:10:5: "seq 3" has other arguments than seq`, "write {{seq}}", Body},
		{"{{csv \"users.csv\"\n\"nam\"}}", `f:10:5: users.csv has no column "nam"`, "did you mean name?", Body},
		{`{{csv users.csv id}}`, `f:10:5: "csv users.csv id" has other arguments than csv`, `write {{csv "users.csv" "id"}}, or {{csv "users.csv" "id" random}}`, Body},
		{`{{csv "none.csv" "id"}}`, "f:10:5: open ", "", Body},
		{`{{csv "empty.csv" "id"}}`, "empty.csv:1:1: the file has no rows below its names of columns", "write id,name and then a row a line", Body},
		{`{{csv "broken.csv" "id"}}`, `broken.csv:3:4: extraneous or missing " in quoted-field`, "", Body},
		{`{{csv "twice.csv" "id"}}`, `twice.csv:1:1: two columns have the name "id"`, "", Body},
		{`{{csv "lines.csv" "id"}}`, `f:10:5: lines.csv:3: "a\nb" has control characters, such as line breaks, and is used in a header`, "use another column", Header},
	} {
		r := Reader{Dir: dir}
		err := r.Check(test.text, test.use, strict.Position{File: "f", Line: 10, Column: 5})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || hint.Of(err) != test.hint {
			t.Errorf("%s: %v (%s)\nwant %s (%s)", test.text, err, hint.Of(err), test.want, test.hint)
		}
	}
}

// Rebase makes paths absolute and leaves the rest as it is.
func TestRebase(t *testing.T) {
	got, err := Rebase("a{{uuid}} {{csv \"users.csv\" \"id\" random}}{{csv `/x/y.csv` \"id\"}}\n", "/data")
	if want := "a{{uuid}} {{csv \"/data/users.csv\" \"id\" random}}{{csv `/x/y.csv` \"id\"}}\n"; err != nil || got != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}

// Figures have short names of expressions.
func TestPattern(t *testing.T) {
	for text, want := range map[string]string{
		`/u/{{csv "a?b.csv" "id"}}/{{ random 1 3 }}?n={{seq}}`: "/u/{id}/{random}?n={seq}", "/a{{": "/a{{", "/a": "/a",
	} {
		if got := Pattern(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Values of braces in a quoted text are text again.
func TestQuote(t *testing.T) {
	const secret = "a{{uuid}}{{{b"
	if got := written(t, Quote(secret), Body, 1, 1)[0]; got != secret {
		t.Errorf("%s", got)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	r := Reader{Dir: usersFile(t)}
	const text = `{{uuid}} {{seq}} {{random 1 100}} {{now}} {{csv "users.csv" "id"}}`
	must.OK(t, r.Check(text, Body, strict.Position{File: "f", Line: 1, Column: 1}))
	compiled, _, err := r.Data().Compile(text, Body, 0)
	must.OK(t, err)
	b, v := make([]byte, 0, 1000), Values{Seed: 1}
	if n := testing.AllocsPerRun(100, func() { v.Number++; b = compiled.Append(b[:0], &v) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Any text either has an error with its position, or compiles and is written the same twice.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{"{{uuid}}", `{{"{{"}}`, `{{csv "users.csv" "id" random}}`, "{{random -1 1}}{{seq}}", "{{ `}}` }}", "{{csv \"users.csv\" \"name\"}}\n{{"} {
		f.Add(text)
	}
	dir := usersFile(f)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/") || strings.Contains(text, "..") {
			t.Skip("files elsewhere")
		}
		r := Reader{Dir: dir}
		if err := r.Check(text, URL, strict.Position{File: "f", Line: 1, Column: 1}); err != nil {
			wrong, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%v", err)
			} else if d := difftest.Wrong("wrong.Line < 1", wrong.Line < 1, "wrong.Column < 1", wrong.Column < 1, `wrong.Expression != "" && !strings.Contains(text, wrong.Expression)`, wrong.Expression != "" && !strings.Contains(text, wrong.Expression)); d != "" {
				t.Fatalf("%s: %v", d, err)
			}
			return
		}
		compiled, _, err := r.Data().Compile(text, URL, 0)
		must.OK(t, err)
		v := Values{Seed: 1, Number: 2}
		first := compiled.Append(nil, &v)
		if !strings.Contains(text, "now") && !bytes.Equal(first, compiled.Append(nil, &v)) || bytes.ContainsAny(first, " \r\n\"") {
			t.Errorf("%q: %q", text, first)
		}
	})
}
