// Package site tests the documentation as a site, as tools/site/build.sh builds it.
package site

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

const root = "../.."

// finding is Chromium's report of a page.
type finding struct {
	Path, ColorScheme, Title string
	Width, Overflow          int
	Errors, Requests, Axe    []string
}

// The site is built without a broken link, each report of the gallery is in it with its results. Its pages have no
// error, no request to another host, and no violation that axe-core finds. The search finds a warning, and the selector
// has both versions.
func TestSite(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("installs mkdocs-material: make e2e-all runs it")
	}
	built := t.TempDir()
	// `make e2e` has built bin/tare, which other tests use meanwhile.
	if os.Getenv(programtest.Variable) == "" {
		if out, err := exec.Command("make", "--no-print-directory", "-C", root, "build").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, version := range []string{"v0.0.0-test", "v0.1.0"} {
		build := exec.Command("tools/site/build.sh")
		build.Dir, build.Env = root, append(os.Environ(), "OUT="+built, "VERSION="+version, "NO_MKDOCS_2_WARNING=1")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	page := must.Get(os.ReadFile(filepath.Join(built, "v0.0.0-test", "gallery", "index.html")))(t)
	for name, archive := range gallery(t) {
		for _, file := range []string{name + ".html", name + archive[strings.LastIndex(archive, ".tar"):]} {
			if info, err := os.Stat(filepath.Join(built, "v0.0.0-test", "gallery", file)); err != nil || info.Size() < 10_000 {
				t.Errorf("%s: %v", file, err)
			}
			_, row, _ := bytes.Cut(page, []byte(name+`.html">`))
			row, _, _ = bytes.Cut(row, []byte("</li>"))
			if !regexp.MustCompile(`<code>[0-9A-Za-z.+-]+</code>, 20\d\d-\d\d-\d\d`).Match(row) {
				t.Errorf("%s has no version and date", name)
			}
			if !bytes.Contains(page, []byte(file+`"`)) {
				t.Errorf("the gallery has no link to %s", file)
			}
		}
	}
	inBrowser(t, built)
}

// gallery are the archives of results by the names of the runs.
func gallery(t *testing.T) map[string]string {
	t.Helper()
	table := must.Get(os.ReadFile("../../tools/site/gallery.txt"))(t)
	all := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Split(line, "|"); len(fields) == 4 && !strings.HasPrefix(line, "#") {
			archive := filepath.Join(root, strings.TrimSpace(fields[3]))
			if _, err := os.Stat(archive); err != nil {
				t.Fatalf("%v: make gallery makes it, make pictures that of the quickstart", err)
			}
			all[strings.TrimSpace(fields[0])] = archive
		}
	}
	if len(all) == 0 {
		t.Fatal("the gallery is empty")
	}
	return all
}

// The results to download are complete: tare verify finds no problem.
func TestGalleryVerifies(t *testing.T) {
	for name, archive := range gallery(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("tar", "-xf", archive, "-C", dir, "--no-same-owner").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var out, messages bytes.Buffer
			if code := cli.New(console.Console{In: strings.NewReader(""), Out: &out, Err: &messages}, nil).Run(t.Context(), []string{"verify", dir, "--format", "json"}); code != 0 {
				t.Fatalf("exit code %d\n%s%s", code, out.String(), messages.String())
			}
			if all := out.String(); strings.Contains(all, `"recorded": 0,`) || !strings.Contains(all, `"recorded": `) || strings.Contains(all, "plan.json") {
				t.Errorf("no trial, or another plan:\n%s", all)
			}
		})
	}
}

// Nobody can build a tare that had uncommitted changes again: the gallery refuses it before the first run.
func TestGalleryRefusesUncommittedChanges(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]string{"tools/site/gallery.sh": "", "tools/site/gallery.txt": "", "bin/tare": "#!/bin/sh\necho tare version 0123456-dirty\n"} {
		text := []byte(from)
		if from == "" {
			text = must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		}
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, text, 0o755))
	}
	out, err := exec.Command(filepath.Join(dir, "tools/site/gallery.sh")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "0123456-dirty has uncommitted changes") {
		t.Errorf("%v: %s", err, out)
	}
}

func inBrowser(t *testing.T, dir string) {
	packages, chromium := programtest.PagePackages(t), programtest.Chromium(t)
	server := httptest.NewServer(http.FileServerFS(os.DirFS(dir)))
	t.Cleanup(server.Close)
	at := "/v0.0.0-test/"
	cmd := exec.Command("node", "testdata/browser.mjs", packages, chromium, server.URL, at, at+"gallery/")
	var rest []string
	err := fs.WalkDir(os.DirFS(dir), strings.Trim(at, "/"), func(name string, d fs.DirEntry, err error) error {
		if path := "/" + strings.TrimSuffix(name, "index.html"); err == nil && path != "/"+name && !slices.Contains(cmd.Args, path) {
			rest = append(rest, path)
		}
		return err
	})
	if err != nil || len(rest) < 40 {
		t.Fatalf("%d pages, %v", len(rest), err)
	}
	cmd.Args = append(cmd.Args, rest...)
	for name := range gallery(t) {
		cmd.Args = append(cmd.Args, at+"gallery/"+name+".html")
	}
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.Output())(t)
	var all []finding
	pages := len(cmd.Args) - slices.Index(cmd.Args, at)
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 2*pages+4*2 {
		t.Fatalf("%d findings, %v:\n%.500s", len(all), err, out)
	}
	for _, f := range all {
		for kind, found := range map[string][]string{"console": f.Errors, "request": f.Requests, "axe": f.Axe} {
			for _, s := range found {
				t.Errorf("%s, %s, %d pixels: %s: %s", f.Path, f.ColorScheme, f.Width, kind, s)
			}
		}
		if f.Overflow > 0 {
			t.Errorf("%s is %d pixels wider than %d", f.Path, f.Overflow, f.Width)
		}
		if f.Title == "" || f.Path == "search" && !strings.Contains(f.Title, "onserv") || f.Path == "versions" && f.Title != "v0.1.0 v0.0.0-test /v0.1.0/" {
			t.Errorf("%s has the title %q", f.Path, f.Title)
		}
	}
}

// Every page of docs is in the navigation, or linked from one that is.
func TestNavigation(t *testing.T) {
	nav := must.Get(os.ReadFile("../../tools/site/mkdocs.yml"))(t)
	for _, dir := range []string{"tutorial", "how-to", "reference", "explanation"} {
		pages, err := fs.Glob(os.DirFS(root), "docs/"+dir+"/*.md")
		if err != nil || len(pages) == 0 {
			t.Fatal(dir, err)
		}
		for _, p := range pages {
			if !bytes.Contains(nav, []byte(": "+p+"\n")) {
				t.Errorf("tools/site/mkdocs.yml has no %s", p)
			}
		}
	}
}

// The site opens with the table of questions, and the findings after it.
func TestHome(t *testing.T) {
	nav := must.Get(os.ReadFile("../../tools/site/mkdocs.yml"))(t)
	if !bytes.Contains(nav, []byte("\nnav:\n  - Home: README.md\n")) {
		t.Error("another page is the first")
	}
	page, _, _ := strings.Cut(string(must.Get(os.ReadFile(filepath.Join(root, "README.md")))(t)), "\n## ")
	_, after, found := strings.Cut(page, "\n| question | command | takes |\n")
	if !found || !strings.Contains(after, "\n[Findings](docs/findings/README.md) are ") {
		t.Error("before its first heading the README has no table of questions with the findings after it")
	}
}
