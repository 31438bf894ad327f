package meshes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/chart"
)

// deepest is how far below a directory of charts they are looked for: Istio's own sources have one two levels down.
const deepest = 4

// source says where a release's chart comes from: the directory of charts where there is one, else where the definition
// says. A chart of that directory is taken in the version it has.
func (m *Mesh) source(r mesh.Release) (chart.Source, error) {
	if m.o.Charts == "" {
		if m.o.Cache == "" {
			return chart.Source{}, fmt.Errorf("chart %s: %w without a directory for downloads", r.Chart.Chart, errors.ErrUnsupported)
		}
		return chart.Source{Chart: r.Chart.Chart, Repo: r.Repository, Version: r.Version}, nil
	}
	where, err := findChart(m.o.Charts, path.Base(r.Chart.Chart), r.Version)
	return chart.Source{Chart: where}, err
}

// findChart looks in a directory, and below it, for a chart by the name in its Chart.yaml, or for its archive
// (NAME-VERSION.tgz, as `helm pull` writes it).
func findChart(dir, name, version string) (string, error) {
	var charts, archives []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(p, dir), string(filepath.Separator)) > deepest {
			return filepath.SkipDir
		}
		switch base := d.Name(); {
		case base == "Chart.yaml":
			if is, err := isChart(p, name); err != nil {
				return err
			} else if is {
				charts = append(charts, filepath.Dir(p))
			}
			return filepath.SkipDir // a chart's own charts are no others
		case strings.HasPrefix(base, name+"-") && strings.HasSuffix(base, ".tgz") && startsWithDigit(base[len(name)+1:]):
			archives = append(archives, p)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("look for chart %s: %w", name, err)
	}
	exact := slices.IndexFunc(archives, func(a string) bool { return filepath.Base(a) == name+"-"+version+".tgz" })
	switch {
	case len(charts) == 1:
		return charts[0], nil
	case len(charts) > 1:
		return "", &Error{fmt.Errorf("look for chart %s: there are several: %s", name, strings.Join(charts, ", ")), "name a directory that has one of them"}
	case exact >= 0:
		return archives[exact], nil
	case len(archives) == 1:
		return archives[0], nil
	case len(archives) > 1:
		return "", &Error{fmt.Errorf("look for chart %s %s: there are %s", name, version, strings.Join(archives, ", ")), "ask for one of these versions"}
	}
	return "", &Error{fmt.Errorf("look for chart %s: %w in %s", name, fs.ErrNotExist, dir), "`helm pull` fetches a chart, as an archive that can lie there"}
}

func startsWithDigit(s string) bool {
	s = strings.TrimPrefix(s, "v")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

func isChart(file, name string) (bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	var c struct {
		Name string `yaml:"name"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	return c.Name == name, nil
}

// errNoCRDs says that custom resource definitions are nowhere to be had.
var errNoCRDs = errors.New("no directory of charts has them and the definition names no files")

// crdFiles are the manifests of custom resource definitions: those of the directory of charts, else what is fetched.
func (m *Mesh) crdFiles(c mesh.CRDs, get func(mesh.File) ([]byte, error)) ([][]byte, error) {
	if m.o.Charts != "" {
		where := filepath.Join(m.o.Charts, c.Name)
		files, err := filepath.Glob(filepath.Join(where, "*.yaml"))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(where + ".yaml"); err == nil {
			files = append(files, where+".yaml")
		}
		if len(files) == 0 {
			return nil, &Error{fmt.Errorf("find the CRDs of %s: %w in %s", c.Name, fs.ErrNotExist, m.o.Charts),
				fmt.Sprintf("put them there as %s.yaml, or as files in a directory %s, or into the cluster beforehand", c.Name, c.Name)}
		}
		var all [][]byte
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("read the CRDs of %s: %w", c.Name, err)
			}
			all = append(all, text)
		}
		return all, nil
	}
	if len(c.Files) == 0 {
		return nil, &Error{fmt.Errorf("find the CRDs of %s: %w", c.Name, errNoCRDs), "put them into the cluster beforehand"}
	}
	var all [][]byte
	for _, f := range c.Files {
		text, err := get(f)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}
