package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository writes files into a directory with the repository's own word list.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	list, err := os.ReadFile("words.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if files["test/words/words.yaml"] == "" {
		files["test/words/words.yaml"] = string(list)
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lint runs the program on files, and returns its exit code and output.
func lint(t *testing.T, files map[string]string) (int, string) {
	t.Helper()
	var out strings.Builder
	code, err := run(&out, []string{"-root", repository(t, files)})
	if err != nil {
		t.Fatal(err)
	}
	return code, out.String()
}

func TestPlantedWord(t *testing.T) {
	for name, c := range map[string]struct{ file, text, finding string }{
		"comment":           {"a.go", "package a\n\n// F needs rights on pods.\nfunc F() {}\n", `a.go:3:12: "rights": write RBAC permissions`},
		"across lines":      {"a.go", "package a\n\n// F counts segments sent\n// again.\nfunc F() {}\n", `a.go:3:22: "sent again": write retransmitted`},
		"message":           {"a.go", "package a\n\nvar m = \"killed for want \" +\n\t\"of memory\"\n", `a.go:3:17: "for want of": write lack of`},
		"raw string":        {"a.go", "package a\n\nvar m = `first\nthe stranger's load`\n", `a.go:4:5: "stranger": write outside client`},
		"identifier":        {"a.go", "package a\n\nfunc freeSeat() {}\n", `a.go:3:11: "Seat": write slot, place`},
		"file name":         {"stranger_linux.go", "package a\n", `stranger_linux.go:1:1: "stranger": write outside client`},
		"page":              {"docs/a.md", "# A\n\nRuns `x` for whoever starts it.\n", `docs/a.md:3:14: "whoever": write the user`},
		"table":             {"docs/a.md", "| a | b |\n|---|---|\n| x | so many |\n", `docs/a.md:3:7: "so many": write N`},
		"mesh":              {"docs/a.md", "Then the mesh is taken\nout.\n", `docs/a.md:1:10: "mesh is taken out": write install`},
		"turn":              {"docs/a.md", "The turn of each mesh ends.\n", `docs/a.md:1:5: "turn of each mesh": write mesh batch`},
		"probe":             {"docs/a.md", "It narrows none of them.\n", `docs/a.md:1:4: "narrows none": write calibration`},
		"shell":             {"a.sh", "#!/bin/sh\n# It is told.\n", `a.sh:2:3: "It is told": write reported`},
		"yaml, end of line": {"a.yaml", "a: 1 # so many\n", `a.yaml:1:8: "so many": write N`},
		"yaml value":        {"a.yaml", "options:\n  n: {doc: \"calls of so many\", upTo: 3}\n", `a.yaml:2:22: "so many": write N`},
		"yaml text":         {".github/a.yml", "- description: >-\n    first\n    so many\n  other: x\n", `.github/a.yml:3:5: "so many": write N`},
		"ruby template":     {"a.rb.tmpl", "  desc \"so many\"\n", `a.rb.tmpl:1:9: "so many": write N`},
		"script comment":    {"a.js", "const u = /[\"]/; f(); // so many\n", `a.js:1:26: "so many": write N`},
		"script comments":   {"a.mjs", "// Lines of so\n// many.\nconst a = 1;\n", `a.mjs:1:13: "so many": write N`},
		"script string":     {"a.js", "const t = \"so \" + `of ${x[\"a\"]} so many`;\n", `a.js:1:33: "so many": write N`},
		"style sheet":       {"a.css", "/* so many */\na { b: c }\n", `a.css:1:4: "so many": write N`},
		"html":              {"a.html", "<p>{{.N}}</p><p>All <b>so</b>\nmany</p>\n", `a.html:1:24: "so many": write N`},
		"html attribute":    {"a.html", "<i aria-label=\"so many\">x</i>\n", `a.html:1:16: "so many": write N`},
		"shell output":      {".ci/run", "#!/bin/sh\necho -n \"so many\"\n", `.ci/run:2:10: "so many": write N`},
		"make help":         {"Makefile", "a: b ## so many\n\t@echo x\n", `Makefile:1:9: "so many": write N`},
		"make output":       {"Makefile", "a:\n\t@echo 'so many'\n", `Makefile:2:9: "so many": write N`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := lint(t, map[string]string{c.file: c.text})
			if code != 1 || !strings.Contains(out, c.finding) {
				t.Errorf("exit code %d, output:\n%swant %s", code, out, c.finding)
			}
		})
	}
}

func TestAllowedText(t *testing.T) {
	code, out := lint(t, map[string]string{
		"a.go":          "package a\n\nimport _ \"x/rights\"\n\n// F returns \"\".\n//\n//\tthe rights of preformatted text\nfunc F() string { return \"rights\" }\n\ntype T struct {\n\tA int `json:\"so many\"`\n}\n",
		"docs/a.md":     "# A\n\n`whoever` is code. [A link](so-many.md) is not prose.\n\n```\nso many\n```\n",
		"a.sh":          "#!/bin/sh\necho so many\n",
		"a.js":          "//   so many columns\nconst so = many(`${so + \"so many\"}`, /\"/); return /so many\"/;\n",
		"a.html":        "<script>so many</script><code>so many</code><a href=\"so many\">{{so many}}</a>\n",
		"a.yaml":        "a: so many\n",
		"testdata/a.md": "so many\n",
	})
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestLongSentence(t *testing.T) {
	code, out := lint(t, map[string]string{"docs/a.md": "Short one. " + strings.Repeat("word ", 35) + "end.\n"})
	if code != 1 || !strings.Contains(out, "docs/a.md:1:12: sentence of 36 words") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, out := lint(t, map[string]string{"docs/a.md": strings.Repeat("Five words make a sentence. ", 20)}); code != 0 {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestSemicolonShare(t *testing.T) {
	code, out := lint(t, map[string]string{"docs/a.md": "One; two.\n\nThree.\n"})
	if code != 1 || !strings.Contains(out, "docs: 50.0 % of 2 sentences have a semicolon") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

const shareRules = "rules:\n  - pattern: says\n    instead: prints\n    where: [docs]\n    share: 20\n"

func TestShare(t *testing.T) {
	few := map[string]string{"test/words/words.yaml": shareRules, "a.md": "A page says it.\n\n" + strings.Repeat("Another sentence.\n\n", 9)}
	if code, out := lint(t, few); code != 0 {
		t.Errorf("one of ten: exit code %d:\n%s", code, out)
	}
	many := map[string]string{"test/words/words.yaml": shareRules, "a.md": "A page says it. B says it. C says it.\n"}
	if code, out := lint(t, many); code != 1 || strings.Count(out, `"says": write prints (in 100.0 % of the sentences of docs; at most 20 %)`) != 3 {
		t.Errorf("three of three: exit code %d:\n%s", code, out)
	}
}

// Data in a raw string is not one long sentence; a long message in one line is.
func TestRawStrings(t *testing.T) {
	long := strings.Repeat("word ", 41)
	for file, want := range map[string]int{
		"a.go":      1,
		"b_test.go": 0,
	} {
		text := "package a\n\nconst data = `" + strings.ReplaceAll(long, " word word ", " word\nword ") + "`\n"
		if code, out := lint(t, map[string]string{file: text}); code != want {
			t.Errorf("%s: exit code %d, want %d:\n%s", file, code, want, out)
		}
	}
	if code, out := lint(t, map[string]string{"c_test.go": "package a\n\nconst text = `" + long + "`\n"}); code != 1 {
		t.Errorf("one line of a test: exit code %d, want 1:\n%s", code, out)
	}
	indented := "package a\n\nconst help = `Examples:\n" + strings.Repeat("  one two three\n", 20) + "`\n"
	if code, out := lint(t, map[string]string{"d.go": indented}); code != 0 {
		t.Errorf("indented lines: exit code %d, want 0:\n%s", code, out)
	}
}

func TestUnder(t *testing.T) {
	dir := repository(t, map[string]string{"docs/a.md": "So many.\n", "other/b.md": "So many.\n"})
	var out strings.Builder
	code, err := run(&out, []string{"-root", dir, "docs"})
	if err != nil || code != 1 || strings.Contains(out.String(), "other/") || !strings.Contains(out.String(), "docs/a.md:1:1:") {
		t.Errorf("exit code %d, error %v:\n%s", code, err, out.String())
	}
}
