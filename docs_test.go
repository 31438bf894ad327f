package tare_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// pages returns the text of every page: pages of the root and files below docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string) {
		b := must.Get(os.ReadFile(name))(t)
		all[filepath.ToSlash(name)] = string(b)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"} {
		add(name)
	}
	must.OK(t, filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			add(name)
		}
		return err
	}))
	return all
}

var (
	fencedCode = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	pageLink   = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	headline   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the names of a page's headings, as code hosts derive them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headline.FindAllStringSubmatch(fencedCode.ReplaceAllString(page, ""), -1) {
		name := notAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(strings.TrimSpace(name), " ", "-")] = true
	}
	return all
}

func TestLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for name, page := range all {
		prose := codeSpan.ReplaceAllString(fencedCode.ReplaceAllString(page, ""), "")
		for _, m := range pageLink.FindAllStringSubmatch(prose, -1) {
			target, anchor := m[1], m[2]
			if strings.Contains(target, "://") {
				continue
			}
			links++
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: link to %s: no such file", name, to)
				continue
			}
			if anchor != "" && !anchors(all[to])[anchor] {
				t.Errorf("%s: link to %s#%s: no such heading", name, to, anchor)
			}
		}
	}
	if links == 0 {
		t.Error("no links found in the pages")
	}
}

// The rates of the README's curve reach beyond the rate that it sizes, with the headroom of 30 %.
func TestReadmeSizesWithinItsRates(t *testing.T) {
	m := regexp.MustCompile(`factors\.rate=\[[^]]*?(\d+)\]'` + "`, then `tare size --rate (\\d+)`").FindStringSubmatch(pages(t)["README.md"])
	if m == nil {
		t.Fatal("no row has a run and its size")
	}
	last, rate := must.Get(strconv.Atoi(m[1]))(t), must.Get(strconv.Atoi(m[2]))(t)
	if 10*last < 13*rate {
		t.Errorf("a size at %d requests/s with headroom needs %g, and the last rate is %d", rate, 1.3*float64(rate), last)
	}
}

// Observations are dated and are not maintained. Only the pages that explain the method cite them, and the list of pages.
func TestLabIsCitedByExplanations(t *testing.T) {
	all := pages(t)
	makefile := must.Get(os.ReadFile("Makefile"))(t)
	all["Makefile"] = string(makefile)
	lab := regexp.MustCompile(`\blab/[\w.#-]*`)
	for name, text := range all {
		switch {
		case strings.HasPrefix(name, "docs/lab/"), name == "docs/explanation/methodology.md", name == "docs/explanation/benchmarks.md", name == "docs/README.md":
			continue
		}
		for _, to := range lab.FindAllString(text, -1) {
			t.Errorf("%s names %s: only methodology and benchmarks cite observations", name, to)
		}
	}
}

// generated are the parts of pages that tests write from the source.
var generated = regexp.MustCompile(`(?s)<!-- (?:glossary|packages|layers|metrics|meanings|fields|variables|sources|runs)\b[^>]*-->.*?<!-- end -->`)

// mostWords bounds what a reader has to read: some half of the 39,387 words that the pages once had. It counts the
// hand-written words below docs, without the dated observations and findings, the generated cli.md and generated parts.
const mostWords = 25300

// mostOfAll bounds the words below docs, with observations, generated parts, and findings without their tables of runs, which grow.
const mostOfAll = 60000

// mostOfFinding bounds the words of a finding: it fits on a screen.
const mostOfFinding = 250

func TestWordsOfDocs(t *testing.T) {
	sum, parts, all := 0, 0, 0
	for name, page := range pages(t) {
		if strings.HasPrefix(name, findings) {
			page = generated.ReplaceAllString(page, "")
		}
		if strings.HasPrefix(name, "docs/") {
			all += len(strings.Fields(page))
		}
		if !strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "docs/lab/") || strings.HasPrefix(name, findings) || name == "docs/reference/cli.md" {
			continue
		}
		parts += len(generated.FindAllString(page, -1))
		sum += len(strings.Fields(generated.ReplaceAllString(page, "")))
	}
	if sum > mostWords || sum < mostWords/2 {
		t.Errorf("docs have %d hand-written words, at most %d: shorten where you add", sum, mostWords)
	}
	if all > mostOfAll {
		t.Errorf("docs have %d words, at most %d", all, mostOfAll)
	}
	if parts < 10 {
		t.Errorf("%d generated parts found", parts)
	}
	t.Logf("%d hand-written words of %d", sum, all)
}

const findings = "docs/findings/"

// A finding has the published sentence as a quote, the command that repeats it, a date and what would change it. Its experiment has
// the sentence as a gate, and names the page. The list has every page. Proxies by release are no sentence of others.
func TestFindings(t *testing.T) {
	all := pages(t)
	list, n := all[findings+"README.md"], 0
	for name, page := range all {
		file := strings.TrimPrefix(name, findings)
		if file == name || file == "README.md" {
			continue
		}
		n++
		if words := len(strings.Fields(generated.ReplaceAllString(page, ""))); words > mostOfFinding {
			t.Errorf("%s has %d words beside its tables of runs, at most %d", name, words, mostOfFinding)
		}
		if !strings.Contains(list, "]("+file+")") {
			t.Errorf("the list has no %s", file)
		}
		if file == "proxies.md" {
			continue
		}
		for _, part := range []string{"\n> ", "\n    tare run examples/findings/", "November 2026", "would change", "Conditions that differ"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
		for _, m := range regexp.MustCompile(`examples/findings/[\w-]+\.yaml`).FindAllString(page, -1) {
			text := string(must.Get(os.ReadFile(m))(t))
			if !strings.Contains(text, "\ndecide:\n") || !strings.Contains(text, name) {
				t.Errorf("%s has no gate, or does not name %s", m, name)
			}
		}
	}
	if n == 0 {
		t.Error("no findings")
	}
	for _, name := range must.Get(filepath.Glob("examples/findings/*.yaml"))(t) {
		for _, page := range regexp.MustCompile(`docs/findings/[\w-]+\.md`).FindAllString(string(must.Get(os.ReadFile(name))(t)), -1) {
			if all[page] == "" {
				t.Errorf("%s names %s, which is not there", name, page)
			}
		}
	}
}

// A screen reader reads the header of a cell before it.
func TestHeadersOfTables(t *testing.T) {
	empty := regexp.MustCompile(`(?m)^\|(?:[^\n]*\|)?[ ]*\|[^\n]*\n\|(?:-+\|)+$`)
	tables := 0
	for name, page := range pages(t) {
		if !strings.HasPrefix(name, "docs/") {
			continue
		}
		tables += strings.Count(page, "\n|---")
		for _, header := range empty.FindAllString(page, -1) {
			t.Errorf("%s: a table has a column without a header: %s", name, strings.SplitN(header, "\n", 2)[0])
		}
	}
	if tables < 20 {
		t.Errorf("%d tables found", tables)
	}
}

// The page lists the tests that only make e2e-all runs: each with TARE_TEST_ALL in its body, and one of each other file
// with it.
func TestListOfAllTests(t *testing.T) {
	page := pages(t)["docs/how-to/testing.md"]
	tests := regexp.MustCompile(`(?m)^func (Test\w+)\((?s:.*?)^}`)
	files := 0
	for _, root := range []string{"internal", "cmd", "kube", "test"} {
		must.OK(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(b), `"TARE_TEST_ALL"`) {
				return err
			}
			files++
			named, found := false, false
			for _, m := range tests.FindAllStringSubmatch(string(b), -1) {
				listed := strings.Contains(page, "`"+m[1]+"`")
				if named = named || listed; strings.Contains(m[0], `"TARE_TEST_ALL"`) {
					found = true
					if !listed {
						t.Errorf("%s: docs/how-to/testing.md does not name %s under make e2e-all", name, m[1])
					}
				}
			}
			if !found && !named {
				t.Errorf("%s: docs/how-to/testing.md names no test of this file under make e2e-all", name)
			}
			return nil
		}))
	}
	if files == 0 {
		t.Error("no file has TARE_TEST_ALL")
	}
}
