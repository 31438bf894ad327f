// Package chart installs Helm charts with Helm's library. It needs no helm
// program, and reads none of the user's Helm settings except the credentials of
// registries. It returns the rendered manifest for the archive.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/downloader"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/repo/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// Source is the place of a chart. With a Repo, Chart is its name there.
// Without, it is a local directory or archive, or oci://….
type Source struct {
	Chart   string `yaml:"chart" json:"chart"`
	Repo    string `yaml:"repo,omitempty" json:"repo,omitempty"`       // URL of a chart repository
	Version string `yaml:"version,omitempty" json:"version,omitempty"` // of the chart, empty for the newest, or the local one
}

// Release is one installation of a chart.
type Release struct {
	Name      string
	Namespace string // created if it does not exist
	Source    Source
	Values    map[string]any
	Labels    map[string]string // of Helm's record of the release
	Editor    Editor            // nil: the objects are applied as rendered
	// Wait bounds the wait until the objects are ready, zero for no wait.
	Wait time.Duration
}

// Editor checks and changes objects of a chart before any of them is applied. After an error none is.
type Editor interface {
	// CRD is called for each custom resource definition outside the templates.
	CRD(c Installed, manifest []byte) error
	// Objects is called once for all rendered objects, hooks included, and returns those to apply.
	Objects(c Installed, manifest []byte) ([]byte, error)
}

// edited is an [Editor] as Helm's post-renderer.
type edited struct {
	of Installed
	by Editor
}

// Installed is an installed or rendered release.
type Installed struct {
	Name, Namespace string
	Chart           string // the chart's name
	Version         string // of the chart
	AppVersion      string
	Manifest        string // YAML, without hooks
	// CRDs are the names of custom resource definitions outside the chart's
	// templates. Helm does not remove them with the release.
	CRDs []string
}

// Helm installs charts into one cluster.
type Helm struct {
	cluster *cluster.Cluster
	cache   string
}

// New returns a Helm with a directory for downloads.
func New(c *cluster.Cluster, cacheDir string) *Helm { return &Helm{c, cacheDir} }

// Render returns the manifest that Install would apply to a cluster with Helm's default capabilities, CRDs included and
// hooks not. It does not contact the cluster.
func (h *Helm) Render(ctx context.Context, r Release) (Installed, error) {
	return h.install(ctx, r, func(i *action.Install) {
		i.DryRunStrategy, i.IncludeCRDs, i.Replace = action.DryRunClient, true, true
	})
}

// Install installs a release. An existing release of that name is an error.
// A failed installation is removed.
func (h *Helm) Install(ctx context.Context, r Release) (Installed, error) {
	// Helm would apply an existing namespace again, without its labels.
	_, err := h.cluster.Get(ctx, cluster.Ref{Kind: cluster.KindNamespace, Name: r.Namespace})
	if err != nil && !cluster.IsNotFound(err) {
		return Installed{}, fmt.Errorf("install %s/%s: %w", r.Namespace, r.Name, err)
	}
	done, failed := h.install(ctx, r, func(i *action.Install) {
		i.CreateNamespace = err != nil
		i.WaitStrategy, i.Timeout = kube.HookOnlyStrategy, max(r.Wait, hookTimeout)
		if r.Wait > 0 { // Helm's own rollback always waits
			i.WaitStrategy, i.RollbackOnFailure = kube.StatusWatcherStrategy, true
		}
	})
	if failed == nil || r.Wait > 0 || strings.Contains(failed.Error(), reusedName) {
		return done, failed
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTimeout)
	defer cancel()
	return done, errors.Join(failed, h.Uninstall(late, r.Namespace, r.Name))
}

// reusedName is Helm's error for an existing release.
const reusedName = "cannot reuse a name"

// hookTimeout bounds a chart's hooks if Wait is shorter.
const hookTimeout = 2 * time.Minute

func (h *Helm) install(ctx context.Context, r Release, mode func(*action.Install)) (Installed, error) {
	chart, err := h.load(ctx, r.Source)
	if err != nil {
		return Installed{}, err
	}
	config, err := h.configuration(r.Namespace)
	if err != nil {
		return Installed{}, fmt.Errorf("install chart %s: %w", chart.Name(), err)
	}
	i := action.NewInstall(config)
	i.ReleaseName, i.Namespace, i.Labels = r.Name, r.Namespace, r.Labels
	mode(i)
	installed := Installed{Name: r.Name, Namespace: r.Namespace, Chart: chart.Name(), Version: chart.Metadata.Version, AppVersion: chart.Metadata.AppVersion}
	if r.Editor != nil {
		i.PostRenderer = edited{installed, r.Editor}
		for _, crd := range chart.CRDObjects() { // Helm applies them before it renders the rest
			if err := r.Editor.CRD(installed, crd.File.Data); err != nil {
				return Installed{}, err
			}
		}
	}
	values := r.Values
	if values == nil {
		values = map[string]any{}
	}
	done, err := i.RunWithContext(ctx, chart, values)
	if err != nil {
		return Installed{}, explained(fmt.Errorf("install chart %s as %s/%s: %w", chart.Name(), r.Namespace, r.Name, err), r)
	}
	rel, ok := done.(*release.Release)
	if !ok {
		return Installed{}, fmt.Errorf("install chart %s: a release of an unknown kind %T: %w", chart.Name(), done, errors.ErrUnsupported)
	}
	installed.Manifest = rel.Manifest
	for _, crd := range chart.CRDObjects() {
		installed.CRDs = append(installed.CRDs, names(crd.File.Data)...)
	}
	return installed, nil
}

// explained adds hints to errors of Helm.
func explained(err error, r Release) error {
	hints := []struct{ contains, hint string }{
		{reusedName, fmt.Sprintf("a release %s is in namespace %s already: uninstall it first", r.Name, r.Namespace)},
		{"values don't meet the specifications", "the chart's schema refuses a value: correct the values"},
		{"cannot be imported into the current release", "the cluster has an object of that name with another owner: disable it by an option or a value of the chart, or remove it"},
		{"kubeVersion", "the chart requires another version of Kubernetes: use another version of the chart"},
		{"context deadline exceeded", "its objects were not ready in time; `kubectl -n " + r.Namespace + " get pods,events` shows why"},
	}
	for _, h := range hints {
		if strings.Contains(err.Error(), h.contains) {
			return hint.Wrap(err, h.hint)
		}
	}
	return err
}

// Uninstall removes a release and waits until its objects are gone. It returns nil if the release does not exist.
func (h *Helm) Uninstall(ctx context.Context, namespace, name string) error {
	config, err := h.configuration(namespace)
	if err != nil {
		return fmt.Errorf("uninstall %s/%s: %w", namespace, name, err)
	}
	u := action.NewUninstall(config)
	// Helm's watcher can end its wait early, before it has received all objects. The legacy strategy does not.
	u.IgnoreNotFound, u.WaitStrategy, u.Timeout, u.DeletionPropagation = true, kube.LegacyStrategy, hookTimeout, "foreground"
	if deadline, ok := ctx.Deadline(); ok {
		u.Timeout = time.Until(deadline)
	}
	if _, err := u.Run(name); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("uninstall %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Run implements Helm's interface.
func (e edited) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	text, err := e.by.Objects(e.of, rendered.Bytes())
	return bytes.NewBuffer(text), err
}

// configuration is the base of every Helm action.
func (h *Helm) configuration(namespace string) (*action.Configuration, error) {
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(restGetter{h.cluster, namespace}, namespace, "secret"); err != nil {
		return nil, err
	}
	return config, nil
}

// load finds a chart, downloads it if necessary, and reads it.
func (h *Helm) load(ctx context.Context, s Source) (*v2.Chart, error) {
	path, err := h.locate(ctx, s)
	if err != nil && s.Repo != "" && hint.Of(err) == "" {
		err = hint.Wrap(err, "without access to the repository, give charts on this machine: meshes.NAME.charts in the file, or --charts")
	}
	if err != nil {
		return nil, fmt.Errorf("find chart %s: %w", s, err)
	}
	chart, err := loader.Load(path)
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", s, err)
	}
	if err := action.CheckDependencies(chart, dependencies(chart)); err != nil {
		return nil, hint.New("its charts/ directory lacks a dependency: run `helm dependency build`, or use a packaged chart", "read chart %s: %w", s, err)
	}
	if s.Version != "" && s.Repo == "" && !registry.IsOCI(s.Chart) && chart.Metadata.Version != s.Version {
		return nil, fmt.Errorf("read chart %s: it is version %s", s, chart.Metadata.Version)
	}
	return chart, nil
}

func (s Source) String() string {
	text := s.Chart
	if s.Repo != "" {
		text += " of " + s.Repo
	}
	if s.Version != "" {
		text += " " + s.Version
	}
	return text
}

// locate returns the path of the chart as a local file or directory.
func (h *Helm) locate(ctx context.Context, s Source) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	where := s.Chart
	if s.Repo == "" && !registry.IsOCI(where) {
		if _, err := os.Stat(where); err != nil {
			return "", hint.Wrap(err, "use a directory or archive with a chart, oci://…, or set repo to the URL of a chart repository")
		}
		return where, nil
	}
	settings := cli.New()
	settings.RepositoryConfig = filepath.Join(h.cache, "repositories.yaml")
	settings.RepositoryCache, settings.ContentCache = filepath.Join(h.cache, "index"), filepath.Join(h.cache, "content")
	for _, dir := range []string{settings.RepositoryCache, settings.ContentCache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	client, err := registryClient(s.Chart)
	if err != nil {
		return "", err
	}
	getters := getter.All(settings)
	if s.Repo != "" {
		if where, err = repo.FindChartInRepoURL(s.Repo, s.Chart, getters, repo.WithChartVersion(s.Version)); err != nil {
			return "", err
		}
	}
	d := downloader.ChartDownloader{Out: io.Discard, Getters: getters, RegistryClient: client,
		Options:          []getter.Option{getter.WithRegistryClient(client)},
		RepositoryConfig: settings.RepositoryConfig, RepositoryCache: settings.RepositoryCache, ContentCache: settings.ContentCache}
	path, _, err := d.DownloadToCache(where, s.Version)
	return path, err
}

// registryClient uses TLS, except for a registry on this machine.
func registryClient(reference string) (*registry.Client, error) {
	options := []registry.ClientOption{registry.ClientOptWriter(io.Discard), registry.ClientOptEnableCache(true)}
	if u, err := url.Parse(reference); err == nil {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			options = append(options, registry.ClientOptPlainHTTP())
		}
	}
	return registry.NewClient(options...)
}
