package main

import (
	"cmp"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

//go:embed words.yaml
var ownRules string

// lint runs the program on files with the repository's own list, and returns the number of findings and the output.
func lint(t *testing.T, files map[string]string, args ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	files["test/words/words.yaml"] = cmp.Or(files["test/words/words.yaml"], ownRules)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	var out strings.Builder
	t.Chdir(dir)
	findings := must.Get(run(&out, args))(t)
	return findings, out.String()
}

func TestPlantedWord(t *testing.T) {
	for name, c := range map[string]struct{ file, text, finding string }{
		"comment":           {"a.go", "package a\n\n// F needs rights on pods.\nfunc F() {}\n", `a.go:3:12: "rights": write RBAC permissions`},
		"gate":              {"docs/a.md", "# A\n\nThe gates fail.\n", `docs/a.md:3:5: "gates fail": write a gate holds`},
		"left out":          {"docs/a.md", "# A\n\nInvalid trials are excluded.\n", `docs/a.md:3:9: "trials are excluded": write the baseline`},
		"across lines":      {"a.go", "package a\n\n// F counts segments sent\n// again.\nfunc F() {}\n", `a.go:3:22: "sent again": write retransmitted`},
		"message":           {"a.go", "package a\n\nvar m = \"killed for want \" +\n\t\"of memory\"\n", `a.go:3:17: "for want of": write lack of`},
		"raw string":        {"a.go", "package a\n\nvar m = `first\nthe stranger's load`\n", `a.go:4:5: "stranger": write outside client`},
		"identifier":        {"a.go", "package a\n\nfunc freeSeat() {}\n", `a.go:3:11: "Seat": write slot, place`},
		"page":              {"docs/a.md", "# A\n\nRuns `x` for whoever starts it.\n", `docs/a.md:3:14: "whoever": write the user`},
		"table":             {"docs/a.md", "| a | b |\n|---|---|\n| x | so many |\n", `docs/a.md:3:7: "so many": write N`},
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
			findings, out := lint(t, map[string]string{c.file: c.text})
			if findings == 0 || !strings.Contains(out, c.finding) {
				t.Errorf("%d findings:\n%swant %s", findings, out, c.finding)
			}
		})
	}
}

func TestAllowedText(t *testing.T) {
	findings, out := lint(t, map[string]string{
		"a.go":          "package a\n\nimport _ \"x/rights\"\n\n// F returns \"\".\n//\n//\tthe rights of preformatted text\nfunc F() string { return \"rights\" }\n\ntype T struct {\n\tA int `json:\"so many\"`\n}\n",
		"docs/a.md":     "# A\n\n`whoever` is code. [A link](so-many.md) is not prose.\n\n```\nso many\n```\n",
		"a.sh":          "#!/bin/sh\necho so many\n",
		"a.js":          "//   so many columns\nconst so = many(`${so + \"so many\"}`, /\"/); return /so many\"/;\n",
		"a.html":        "<script>so many</script><code>so many</code><a href=\"so many\">{{so many}}</a>\n",
		"a.yaml":        "a: so many\n",
		"testdata/a.md": "so many\n",
	})
	if findings != 0 {
		t.Errorf("%d findings:\n%s", findings, out)
	}
}

func TestLongSentence(t *testing.T) {
	findings, out := lint(t, map[string]string{"docs/a.md": "Short one. " + strings.Repeat("word ", 35) + "end.\n"})
	if findings != 1 || !strings.Contains(out, "docs/a.md:1:12: sentence of 36 words") {
		t.Errorf("%d findings:\n%s", findings, out)
	}
	if findings, out := lint(t, map[string]string{"docs/a.md": strings.Repeat("Five words make a sentence. ", 20)}); findings != 0 {
		t.Errorf("%d findings:\n%s", findings, out)
	}
}

func TestShare(t *testing.T) {
	const rule = "rules: [{not: says, but: prints, in: [docs], share: 20}]"
	few := map[string]string{"test/words/words.yaml": rule, "a.md": "A page says it.\n\n" + strings.Repeat("Another sentence.\n\n", 9)}
	if findings, out := lint(t, few); findings != 0 {
		t.Errorf("one of ten: %d findings:\n%s", findings, out)
	}
	many := map[string]string{"test/words/words.yaml": rule, "a.md": "A page says it. B says it. C says it.\n"}
	if findings, out := lint(t, many); findings != 3 || strings.Count(out, `"says": write prints (more than 20 % of the sentences of docs)`) != 3 {
		t.Errorf("three of three: %d findings:\n%s", findings, out)
	}
	if findings, out := lint(t, map[string]string{"docs/a.md": "One; two.\n\nThree.\n"}); findings != 1 || !strings.Contains(out, "two sentences") {
		t.Errorf("%d findings:\n%s", findings, out)
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
		if findings, out := lint(t, map[string]string{file: text}); findings != want {
			t.Errorf("%s: %d findings, want %d:\n%s", file, findings, want, out)
		}
	}
	if findings, out := lint(t, map[string]string{"c_test.go": "package a\n\nconst text = `" + long + "`\n"}); findings != 1 {
		t.Errorf("one line of a test: %d findings, want 1:\n%s", findings, out)
	}
	indented := "package a\n\nconst help = `Examples:\n" + strings.Repeat("  one two three\n", 20) + "`\n"
	if findings, out := lint(t, map[string]string{"d.go": indented}); findings != 0 {
		t.Errorf("indented lines: %d findings, want 0:\n%s", findings, out)
	}
}

func TestUnder(t *testing.T) {
	findings, out := lint(t, map[string]string{"docs/a.md": "So many.\n", "other/b.md": "So many.\n"}, "docs")
	if findings != 1 || !strings.Contains(out, "docs/a.md:1:1:") {
		t.Errorf("%d findings:\n%s", findings, out)
	}
}

// The messages of a range are checked, not those before it.
func TestCommits(t *testing.T) {
	lint(t, map[string]string{})
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "Refuse so many blocks")
	git("tag", "base")
	git("commit", "-q", "--allow-empty", "-m", "Refuse blocks without trials\n\nThe report says what is missing.")
	var out strings.Builder
	if n, err := run(&out, []string{"-commits", "base.."}); n != 0 || err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
	git("commit", "-q", "--allow-empty", "-m", "Keep the results\n\nWith a given namespace\nthe load had no\nrights.")
	n, err := run(&out, []string{"-commits", "base.."})
	for _, want := range []string{`:5:1: "rights": write RBAC permissions`, `:3:8: "given namespace"`, "2 findings"} {
		if n != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%v:\n%swant %s", err, out.String(), want)
		}
	}
	if _, err := readCommits("absent.."); err == nil {
		t.Error("no error for an unknown commit")
	}
}
