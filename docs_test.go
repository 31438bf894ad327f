package tare_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages returns the text of every page: those of the root and the files below docs.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = string(b)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"} {
		add(name)
	}
	err := filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			add(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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

// Observations are dated and are not maintained. Only the pages that explain
// the method cite them, and the changelog, which is dated too.
func TestLabIsCitedByExplanations(t *testing.T) {
	for name, page := range pages(t) {
		switch {
		case strings.HasPrefix(name, "docs/lab/"),
			name == "CHANGELOG.md", name == "docs/explanation/methodology.md", name == "docs/explanation/benchmarks.md":
			continue
		}
		for _, m := range pageLink.FindAllStringSubmatch(page, -1) {
			if strings.HasPrefix(path.Join(path.Dir(name), m[1]), "docs/lab/") {
				t.Errorf("%s links to %s: only methodology, benchmarks and the index do", name, m[1])
			}
		}
	}
}

// The page lists the tests that only make e2e-all runs: of each file with TARE_TEST_ALL, one.
func TestListOfAllTests(t *testing.T) {
	page := pages(t)["docs/how-to/testing.md"]
	tests := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	files := 0
	for _, root := range []string{"internal", "cmd", "test"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(b), `"TARE_TEST_ALL"`) {
				return err
			}
			files++
			for _, m := range tests.FindAllStringSubmatch(string(b), -1) {
				if strings.Contains(page, "`"+m[1]+"`") {
					return nil
				}
			}
			t.Errorf("%s: docs/how-to/testing.md names no test of this file under make e2e-all", name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 {
		t.Error("no file has TARE_TEST_ALL")
	}
}
