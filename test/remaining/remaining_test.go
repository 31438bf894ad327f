package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every kind of test in the report of a real run, as `go test -json -short` prints it.
func TestRest(t *testing.T) {
	const report = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestWhole"}
{"Action":"pass","Package":"a","Test":"TestWhole","Elapsed":0}
{"Action":"pass","Package":"a","Test":"TestSub/one","Elapsed":0}
{"Action":"skip","Package":"a","Test":"TestSub/two","Elapsed":0}
{"Action":"pass","Package":"a","Test":"TestSub","Elapsed":0}
{"Action":"skip","Package":"a","Test":"TestSkipped","Elapsed":0}
{"Action":"attr","Package":"a","Test":"TestShorter","Key":"short","Value":"10 of 100"}
{"Action":"pass","Package":"a","Test":"TestShorter","Elapsed":0}
{"Action":"attr","Package":"a","Test":"TestOther","Key":"other","Value":"short"}
{"Action":"pass","Package":"a","Test":"TestOther","Elapsed":0}
{"Action":"fail","Package":"a","Test":"TestRepeated","Elapsed":0}
{"Action":"fail","Package":"a","Elapsed":0}
{"Action":"pass","Package":"a","Test":"TestRepeated","Elapsed":0}
{"Action":"fail","Package":"a","Test":"TestFailed","Elapsed":0}
{"Action":"pass","Package":"b","Test":"TestSkipped","Elapsed":0}
{"Action":"pass","Package":"b","Elapsed":0}
`
	done, err := read(strings.NewReader(report))
	if err != nil {
		t.Fatal(err)
	}
	names, packages := done.rest([]packageTests{
		{"a", []string{"TestWhole", "TestSub", "TestSkipped", "TestShorter", "TestOther", "TestRepeated", "TestFailed", "TestAbsent"}},
		{"b", []string{"TestSkipped"}},
		{"c", []string{"TestWhole"}},
		{"d", nil},
	})
	if got, want := strings.Join(names, " "), "TestAbsent TestFailed TestShorter TestSkipped TestSub TestWhole"; got != want {
		t.Errorf("tests %s, want %s", got, want)
	}
	if got := strings.Join(packages, " "); got != "a c" {
		t.Errorf("packages %s, want a c", got)
	}
	for _, damaged := range []string{"", `{"Action":"pass","Package":"a"}`, report + "FAIL\n"} {
		if _, err := read(strings.NewReader(damaged)); err == nil {
			t.Errorf("accepted: %.60s", damaged)
		}
	}
}

// The source of this package has its tests, and no others.
func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, []string{"."}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "^(TestList|TestRest|TestShortShows)$\ngithub.com/tare-mesh/tare/test/remaining\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := run(&out, []string{"./no-such-package"}); err == nil {
		t.Error("a package that does not exist is accepted")
	}
}

// Every branch on testing.Short skips the test or sets the attribute "short": otherwise `make e2e`
// takes the test for one that `make test` ran whole.
func TestShortShows(t *testing.T) {
	files := token.NewFileSet()
	asking := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "testdata", "tools", "runs"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		asking++
		for _, call := range hidden(f) {
			t.Errorf("%s: write `if testing.Short() {` with t.Skip or t.Attr(\"short\", \"what is left out\")", files.Position(call))
		}
		return nil
	})
	if err != nil || asking < 100 {
		t.Fatalf("%d files, %v", asking, err)
	}
	for text, want := range map[string]int{
		`func TestA(t *testing.T) { if testing.Short() { t.Skip("long") } }`:                   0,
		`func TestA(t *testing.T) { if testing.Short() { t.Attr("short", "10"); n = 10 } }`:    0,
		`func TestA(t *testing.T) { if testing.Short() { n = 10 } }`:                           1,
		`func TestA(t *testing.T) { if windows { t.Skip("") }; if testing.Short() { n = 1 } }`: 1,
		`func TestA(t *testing.T) { switch { case testing.Short(): t.Skip("long") } }`:         0,
		`func TestA(t *testing.T) { if testing.Short() { t.Attr("other", "10"); n = 10 } }`:    1,
		`func short() bool { return testing.Short() }`:                                         1,
		`var n = map[bool]int{true: 1, false: 9}[testing.Short()]`:                             1,
	} {
		f, err := parser.ParseFile(files, "x_test.go", "package x\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := hidden(f); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
