package meshes

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/certificate"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/chart"
)

// chartSources locates charts and CRDs: in a local directory if there is one, otherwise for download.
type chartSources struct {
	dir      string // empty: download
	download bool   // downloads have a place on this machine
}

// maxDepth bounds the search below the directory. Istio's sources have a chart two levels down.
const maxDepth = 4

// chart is the source of a release's chart. A chart of the directory is used in the version it has.
func (s chartSources) chart(r mesh.Release) (chart.Source, error) {
	if s.dir == "" {
		if r.Repository == "" && !strings.HasPrefix(r.Chart.Chart, "oci://") {
			return chart.Source{}, hint.New("download it as its documentation describes, and name its directory: meshes.NAME.charts in the file, or --charts",
				"find chart %s: the definition has no repository", r.Chart.Chart)
		}
		if !s.download {
			return chart.Source{}, fmt.Errorf("chart %s: %w without a directory for downloads", r.Chart.Chart, errors.ErrUnsupported)
		}
		return chart.Source{Chart: r.Chart.Chart, Repo: r.Repository, Version: r.Version}, nil
	}
	where, err := findChart(s.dir, path.Base(r.Chart.Chart), r.Version)
	return chart.Source{Chart: where}, err
}

// findChart searches a directory for a chart by the name in its Chart.yaml, or for its archive (NAME-VERSION.tgz, as
// `helm pull` writes it).
func findChart(dir, name, version string) (string, error) {
	var charts, archives []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(p, dir), string(filepath.Separator)) > maxDepth {
			return filepath.SkipDir
		}
		switch base := d.Name(); {
		case base == "Chart.yaml":
			if is, err := isChart(p, name); err != nil {
				return err
			} else if is {
				charts = append(charts, filepath.Dir(p))
			}
			return filepath.SkipDir // its subcharts are parts of it
		case strings.HasPrefix(base, name+"-") && strings.HasSuffix(base, ".tgz") && startsWithDigit(base[len(name)+1:]):
			archives = append(archives, p)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("find chart %s: %w", name, err)
	}
	exact := slices.IndexFunc(archives, func(a string) bool { return filepath.Base(a) == name+"-"+version+".tgz" })
	switch {
	case len(charts) == 1:
		return charts[0], nil
	case len(charts) > 1:
		return "", hint.New("name a directory with only one of them", "find chart %s: several exist: %s", name, strings.Join(charts, ", "))
	case exact >= 0:
		return archives[exact], nil
	case len(archives) == 1:
		return archives[0], nil
	case len(archives) > 1:
		return "", hint.New("request one of these versions", "find chart %s %s: only other versions exist: %s", name, version, strings.Join(archives, ", "))
	}
	return "", hint.New("`helm pull` downloads a chart as an archive: put it into that directory", "find chart %s: %w in %s", name, fs.ErrNotExist, dir)
}

func startsWithDigit(s string) bool {
	s = strings.TrimPrefix(s, "v")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// maxChartFile bounds a file of a chart or of CRDs, in bytes. Istio's CRDs have 800 KB.
const maxChartFile = 64 << 20

func isChart(file, name string) (bool, error) {
	text, err := regular.ReadFile(file, maxChartFile)
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

// manifests are the files of a set of objects: files of the directory, or fetched ones.
func (s chartSources) manifests(o mesh.Published, fetch func(mesh.File) ([]byte, error)) ([][]byte, error) {
	if s.dir != "" {
		return s.localManifests(o.Name)
	}
	if len(o.Files) == 0 {
		return nil, hint.New("install them into the cluster first", "find the objects of %s: no directory of charts contains them, and the definition lists no files", o.Name)
	}
	var all [][]byte
	for _, f := range o.Files {
		text, err := fetch(f)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// localManifests reads NAME.yaml and the files of a directory NAME.
func (s chartSources) localManifests(name string) ([][]byte, error) {
	where := filepath.Join(s.dir, name)
	files, err := filepath.Glob(filepath.Join(where, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(where + ".yaml"); err == nil {
		files = append(files, where+".yaml")
	}
	if len(files) == 0 {
		return nil, hint.New(fmt.Sprintf("add them there as %s.yaml, or as files in a directory %s, or install them into the cluster first", name, name),
			"find the objects of %s: %w in %s", name, fs.ErrNotExist, s.dir)
	}
	var all [][]byte
	for _, file := range files {
		text, err := regular.ReadFile(file, maxChartFile)
		if err != nil {
			return nil, fmt.Errorf("read the objects of %s: %w", name, err)
		}
		all = append(all, text)
	}
	return all, nil
}

// certificateLifetime is the validity of an installation's CA.
const certificateLifetime = 365 * 24 * time.Hour

// issueCertificates creates a trust anchor and an issuer under it, ECDSA P-256, as Linkerd requires. The anchor's key is
// discarded, so that no other issuer can be created.
func issueCertificates(namespace string) (all mesh.IssuedCertificates, err error) {
	authority := func(name string, pathLength int) x509.Certificate {
		t := certificate.Authority(name + "." + namespace + ".cluster.local")
		t.NotAfter, t.MaxPathLen, t.MaxPathLenZero = time.Now().Add(certificateLifetime), pathLength, pathLength == 0
		return t
	}
	anchor, err := certificate.New(authority("root", 1), nil)
	if err != nil {
		return all, err
	}
	issuer, err := certificate.New(authority("identity", 0), anchor)
	if err != nil {
		return all, err
	}
	key, err := issuer.KeyPEM()
	return mesh.IssuedCertificates{TrustAnchor: string(anchor.PEM()), Issuer: string(issuer.PEM()), IssuerKey: string(key)}, err
}
