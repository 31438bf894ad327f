// Pictures draws the figures of the README and the methodology from a run of the quickstart, and keeps the run beside
// them. A test draws them again and compares the bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/plot"
)

// Paths from the root of the repository.
const (
	picturesDir = "docs/pictures"
	runFile     = picturesDir + "/quickstart.tar.gz"
)

// figures are the README's.
var figures = []string{"bill"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("name the results directory of a run of the quickstart")
	}
	if err := committed(args[0]); err != nil {
		return err
	}
	packed, err := pack(args[0])
	if err != nil {
		return err
	}
	drawn, _, err := draw(args[0])
	if err != nil {
		return err
	}
	ofSlices, err := drawSlices(args[0])
	if err != nil {
		return err
	}
	for _, id := range figures {
		err = errors.Join(err, os.WriteFile(picture(id), drawn[id], 0o644))
	}
	for name, picture := range ofSlices {
		err = errors.Join(err, os.WriteFile(filepath.Join(slicesDir, name), picture, 0o644))
	}
	if err != nil {
		return err
	}
	return os.WriteFile(runFile, packed, 0o644)
}

// committed refuses a run of a tare with uncommitted changes, which nobody can build again.
func committed(dir string) error {
	d, err := result.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if v := d.Environment().Tare; strings.HasSuffix(v, "-dirty") {
		return fmt.Errorf("the run is of tare %s, which has uncommitted changes: commit, then make pictures", v)
	}
	return nil
}

func picture(id string) string { return picturesDir + "/" + id + ".svg" }

// draw returns the figures of a results directory by name, and its report.
func draw(dir string) (map[string][]byte, *answer.Report, error) {
	d, err := result.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	r, err := answer.Analyze(d, compare.Options{})
	if err != nil {
		return nil, nil, err
	}
	data, err := page.Data(page.Source{Analysis: answer.Analysis{Report: r, Dir: d}})
	if err != nil {
		return nil, nil, err
	}
	all := map[string][]byte{}
	for _, id := range figures {
		var b bytes.Buffer
		if err := plot.Draw(&b, data, page.Drawing{Figure: id, Width: 840, Columns: 2, Theme: "light"}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", id, err)
		}
		all[id] = b.Bytes()
	}
	return all, r, nil
}

// pack returns the results as an archive that tare verify accepts, so with the page, which the manifest lists.
func pack(dir string) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.Type().IsRegular() || strings.HasPrefix(e.Name(), "."):
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
