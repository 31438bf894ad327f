package strict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/test/must"
)

// even is a scalar with words of its own.
type even int

func (e *even) UnmarshalScalar(text string) error {
	if len(text)%2 != 0 {
		return fmt.Errorf("found %q, expected an even number of characters", text)
	}
	*e = even(len(text))
	return nil
}

func (even) Wants() string { return "an even number of characters" }

type named struct {
	ID string `yaml:"id"`
}

type all struct {
	Text   string            `yaml:"text"`
	Yes    bool              `yaml:"yes"`
	Int    int               `yaml:"int"`
	Small  int8              `yaml:"small"`
	Uint   uint16            `yaml:"uint"`
	Float  float64           `yaml:"float"`
	Ptr    *int              `yaml:"ptr"`
	List   []string          `yaml:"list"`
	Rows   []named           `yaml:"rows"`
	Map    map[string]string `yaml:"map"`
	Even   even              `yaml:"even"`
	Evens  []*even           `yaml:"evens"`
	Any    any               `yaml:"any"`
	Plain  string            // lower-case name
	named  `yaml:"-"`
	Inline inline  `yaml:",inline"`
	Fn     func()  `yaml:"fn"`
	Nested *nested `yaml:"nested"`
}

type inline struct {
	Extra int `yaml:"extra"`
}

type nested struct {
	Deeper struct {
		Rows []named `yaml:"rows"`
	} `yaml:"deeper"`
}

func decode(text string, v any) (*strict.Document, error) {
	doc, err := strict.Parse("f", []byte(text))
	if err != nil {
		return nil, err
	}
	doc.Decode(v)
	return doc, doc.Err()
}

func TestDecode(t *testing.T) {
	v := all{Int: 7, Small: 3, List: []string{"default"}}
	must.Get(decode(`
text: "1"
yes: TRUE
small: -128
uint: +65535
float: 1e3
ptr: 0
list: [a, 2020-01-01, yes, "~"]
rows: [{id: x}, {id: y}]
map: {a: b, "1": "2"}
even: abcd
evens: [ab, 1234]
any: {a: [1, {b: null}]}
plain: p
extra: 5
nested: {deeper: {rows: [{id: z}]}}
`, &v))(t)
	got := fmt.Sprintln(v.Text, v.Yes, v.Int, v.Small, v.Uint, v.Float, *v.Ptr, v.List, v.Rows, v.Map, v.Even, *v.Evens[1], v.Any, v.Plain, v.Inline.Extra, v.Nested.Deeper.Rows)
	want := "1 true 7 -128 65535 1000 0 [a 2020-01-01 yes ~] [{x} {y}] map[1:2 a:b] 4 4 map[a:[1 map[b:<nil>]]] p 5 [{z}]\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"small: 128":                     `f:1:8: small: found 128, expected a whole number`,
		"uint: 65536":                    `f:1:7: uint: found 65536, expected a whole number that is not negative`,
		"float: .inf":                    `f:1:8: float: found .inf, expected a number`,
		"float: 1_000":                   `f:1:8: float: found 1_000, expected a number`,
		"float: \"1\"":                   `f:1:8: float: found text "1", expected a number`,
		"list: [a, {b: c}]":              `f:1:11: list[1]: found a mapping, expected text`,
		"even: abc":                      `f:1:7: even: found "abc", expected an even number of characters`,
		"even: [ab]":                     `f:1:7: even: found a list, expected an even number of characters`,
		"evens:\n- ab\n- abc":            `f:3:3: evens[1]: found "abc", expected an even number of characters`,
		"map: {a: 1}":                    `f:1:10: map.a: found 1, expected text`,
		"map: [a]":                       `f:1:6: map: found a list, expected a mapping`,
		"fn: x":                          `f:1:5: fn: a func cannot be read from a file`,
		"any: !!int x":                   `f:1:6: any: the tag !!int is not allowed`,
		"nested: {deeper: {row: 1}}":     `f:1:19: nested.deeper.row: unknown field`,
		"ptr: x":                         `f:1:6: ptr: found text "x", expected a whole number`,
		"named: {id: x}":                 `f:1:1: named: unknown field`,
		"ünï: 1\nint: x":                 "f:1:1: ünï: unknown field\nf:2:6: int: found text \"x\", expected a whole number",
		"text: ü \x01":                   `f:1:9: control character U+0001`,
		"\ufefftext: a\nint: x":          `f:2:6: int: found text "x", expected a whole number`,
		"text: a\r\nint: x\r\n":          `f:2:6: int: found text "x", expected a whole number`,
		strings.Repeat("k", 200) + ": 1": "f:1:1: " + strings.Repeat("k", 60) + "…: unknown field",
	} {
		var v all
		_, err := decode(text, &v)
		if err == nil || err.Error() != want {
			t.Errorf("%.60q: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

// A field of the outermost struct is named as one where it is in another.
func TestMisplacedFieldHasItsPlace(t *testing.T) {
	var v all
	_, err := decode("nested: {deeper: {list: []}}", &v)
	var problems strict.Problems
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Tip != "write list at the top level of the file" {
		t.Errorf("got %v", err)
	}
}

// A mistake in a list does not move the other elements.
func TestListsKeepTheirIndices(t *testing.T) {
	var v all
	doc, err := decode("list: [a, {x: y}, c]\n", &v)
	if err == nil || len(v.List) != 3 || v.List[2] != "c" {
		t.Fatalf("%q, %v", v.List, err)
	}
	for path, want := range map[string]bool{"list": false, "list[0]": true, "list[1]": false, "list[1].x": false, "list[2]": true, "list[10]": true, "lis": true, "int": true, "": false} {
		if got := doc.Sound(path); got != want {
			t.Errorf("Sound(%q) = %v", path, got)
		}
	}
}

func TestAt(t *testing.T) {
	doc := must.Get(strict.Parse("f", []byte("rows:\n  - id: a\n  - {id: b}\nmap:\n  k:   v\nlist: [x,\n  y]\nnested:\n  deeper:\n    rows: []\n")))(t)
	for path, want := range map[string]string{
		"rows":                     "1:1", // a block: its key
		"rows[0]":                  "2:5",
		"rows[0].id":               "2:9",
		"rows[1].id":               "3:10",
		"rows[2].id":               "1:1", // not there: the nearest above
		"map.k":                    "5:8",
		"list":                     "6:7",
		"list[1]":                  "7:3",
		"nested.deeper.rows":       "10:11",
		"nested.deeper.rows[0].id": "10:11",
		"nested.deeper.none":       "9:3",
		"nothing":                  "1:1",
		"":                         "1:1",
		"rows[x]":                  "1:1",
	} {
		if p := doc.At(path); fmt.Sprintf("%d:%d", p.Line, p.Column) != want {
			t.Errorf("%q is at %d:%d, want %s", path, p.Line, p.Column, want)
		}
	}
	if !doc.Has("list[1]") || doc.Has("list[2]") || doc.Has("rows.id") {
		t.Error("Has is wrong")
	}
}

func TestReportIsSortedAndBounded(t *testing.T) {
	doc := must.Get(strict.Parse("f", []byte("int: 1\ntext: a\n")))(t)
	doc.Report("text", "second", "")
	doc.Report("int", "first", "a hint")
	if got := doc.Err().Error(); got != "f:1:6: int: first\nf:2:7: text: second" {
		t.Errorf("got %s", got)
	}
	for range 1000 {
		doc.Report("int", "again", "")
	}
	var ps strict.Problems
	if !errors.As(doc.Err(), &ps) || len(ps) != 101 || !strings.HasPrefix(ps[100].Message, "stopped after 100 mistakes") {
		t.Errorf("%d problems", len(ps))
	}
}

func TestDidYouMean(t *testing.T) {
	words := []string{"measure", "warmup", "drain"}
	for word, want := range map[string]string{
		"mesure": "did you mean measure?", "warm-up": "did you mean warmup?", "DRAIN": "did you mean drain?", "darin": "did you mean drain?",
		"speed": "known: measure, warmup, drain", "": "known: measure, warmup, drain",
	} {
		if got := strict.DidYouMean(word, words); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func FuzzStrict(f *testing.F) {
	for _, s := range []string{
		"text: a\nint: 1\n", "rows: [{id: x}]\n", "any: {a: [1, *b]}\n", "a: &a [x]\nb: *a\n", "- - - -", "? ? ?\n", "text: |\n  a\n\tb\n", "<<: {a: b}", "\ufeffint: 1",
		"a: !!binary x", "{", "--- \n--- \n", "even: ''\nevens: [~]", "%YAML 1.2\n---\nint: 1", "int: 1\nint: 2\n", "nested:\n deeper:\n  rows:\n   - id: 1\n",
	} {
		f.Add([]byte(s), "int=1")
	}
	f.Add([]byte("int: 1\n"), "rows[0].id=x")
	f.Add([]byte("rows: [{id: x}]\n"), "rows[0]={id: [}")
	f.Fuzz(func(t *testing.T, data []byte, override string) {
		doc, err := strict.Parse("f", data)
		if err == nil {
			_ = doc.Set(override)
			var v all
			doc.Decode(&v)
			err = doc.Err()
		}
		var ps strict.Problems
		if err != nil && !errors.As(err, &ps) {
			t.Fatalf("not a list of problems: %v", err)
		}
		for _, p := range ps {
			if strings.Contains(p.Message, "cannot be decoded") || strings.Contains(p.Message, "cannot be read as YAML") || len(p.Error()) > 4000 {
				t.Fatalf("%#v", p)
			}
		}
	})
}

// Hostile files of the max size take seconds at most; quadratic work would take hours.
func TestLargeHostileFiles(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, strict.MaxBytes/len(unit)) }
	var keys strings.Builder
	for i := 0; keys.Len() < strict.MaxBytes/4; i++ {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, text := range map[string]string{
		"brackets": fill("["), "braces": fill("{a: "), "dashes": fill("- "), "questions": fill("? "), "comments": fill("#\n"),
		"one key": strings.Repeat("int: 1\n", 30_000), "keys": keys.String(), "list": "list: [" + strings.Repeat("{},", 60_000) + "]", "rows": "rows:\n" + strings.Repeat("- x\n", 60_000),
		"quotes": "text: \"" + strings.Repeat("\\n", 500_000), "long key": strings.Repeat("k", 500_000) + ": [" + strings.Repeat("~,", 60_000) + "]",
		"aliases": "a: &a [x]\nlist: [" + strings.Repeat("*a,", 60_000) + "]", "spaces": fill(" "), "newlines": fill("\n"), "documents": fill("---\n"), "tabs": fill("\t"),
	} {
		t.Run(name, func(t *testing.T) {
			var v all
			_, err := decode(text, &v)
			if err == nil {
				t.Fatal("accepted")
			}
			if n := len(err.Error()); n > 100_000 {
				t.Errorf("got %d bytes", n)
			}
		})
	}
}

// The hint for a command in one string separates its words.
func TestHintForAListOfWords(t *testing.T) {
	var v all
	_, err := decode(`list: "node s.js"`, &v)
	var problems strict.Problems
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Tip != "write [node, s.js]" {
		t.Errorf("error %v, problems %+v", err, problems)
	}
}
