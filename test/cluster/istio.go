package cluster

import (
	"context"
	"io"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/base/fetch"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
)

// BuildIstio sees to it that the cache holds Istio's images and charts, and returns where they are.
//
// Its control plane and its agent are Istio's own. Its proxy is the Envoy that tare uses elsewhere, which lacks the
// filters that Istio builds into its own.
func BuildIstio(ctx context.Context, l Layout, source parts.Istio, log io.Writer) (parts.BuiltIstio, error) {
	report := newProgress(log)
	envoy, err := fetch.Envoy().Find(ctx, fetch.Options{Log: func(line string) { report("%s", line) }})
	if err != nil {
		return parts.BuiltIstio{}, err
	}
	built, err := source.Cached(l.Root, envoy.SHA256)
	if err != nil {
		return built, err
	}
	return built, buildOnce(ctx, l, built.Built, "Istio (about 9 minutes of processor time)", log, func() error { return source.Build(ctx, built, envoy.Path, log) })
}

// buildOnce fills a directory of the cache, unless it is there. One build runs at a time.
func buildOnce(ctx context.Context, l Layout, built parts.Built, what string, log io.Writer, build func() error) error {
	unlock, err := lockFile(ctx, filepath.Join(l.Root, "build.lock"), true)
	if err != nil {
		return err
	}
	defer unlock()
	if built.Has() {
		return nil
	}
	report := newProgress(log)
	report("building %s into %s", what, built.Dir)
	if err := build(); err != nil {
		return err
	}
	report("built")
	return nil
}

// AddAmbient loads the images that Istio's ambient mode needs beside the images of [AddIstio], with a ztunnel that was built
// elsewhere, and records that in the layout.
func AddAmbient(ctx context.Context, l Layout, source parts.Istio, ztunnel string, log io.Writer) (Layout, error) {
	l, err := AddIstio(ctx, l, source, log)
	if err != nil || l.Istio.Ambient == ztunnel {
		return l, err
	}
	built, err := buildAmbient(ctx, l, source, ztunnel, log)
	if err != nil {
		return l, err
	}
	if _, err := l.LoadImage(ctx, built.Images()); err != nil {
		return l, err
	}
	newProgress(log)("images of Istio's ambient mode imported")
	l.Istio.Ambient = ztunnel
	return l, l.save()
}

func buildAmbient(ctx context.Context, l Layout, source parts.Istio, ztunnel string, log io.Writer) (parts.BuiltAmbient, error) {
	istio, err := BuildIstio(ctx, l, source, log)
	if err != nil {
		return parts.BuiltAmbient{}, err
	}
	envoy, err := fetch.Envoy().Find(ctx, fetch.Options{})
	if err != nil {
		return parts.BuiltAmbient{}, err
	}
	built, err := source.CachedAmbient(l.Root, ztunnel)
	if err != nil {
		return built, err
	}
	return built, buildOnce(ctx, l, built.Built, "Istio's CNI agent", log, func() error {
		return source.BuildAmbient(ctx, built, istio, envoy.Path, ztunnel, log)
	})
}

// AddIstio loads Istio's images into a cluster that is up, so that its charts can be installed there, and records
// that in the layout. It builds images that the cache lacks.
func AddIstio(ctx context.Context, l Layout, source parts.Istio, log io.Writer) (Layout, error) {
	built, err := BuildIstio(ctx, l, source, log)
	if err != nil || l.Istio.Charts == built.Charts() {
		return l, err
	}
	tag, err := built.Tag()
	if err != nil {
		return l, err
	}
	report := newProgress(log)
	if _, err := l.LoadImage(ctx, built.Images()); err != nil {
		return l, err
	}
	report("images of Istio %s imported", tag)
	l.Istio = Istio{Charts: built.Charts(), Hub: parts.IstioHub(), Tag: tag}
	return l, l.save()
}

// Istio holds the charts, hub and tag to install Istio from this machine, empty if its images were not loaded.
type Istio struct {
	Charts string `json:"charts"` // directory with a directory for each chart, by its published name
	Hub    string `json:"hub"`
	Tag    string `json:"tag"` // of the images; the charts' version is the same
	// Ambient is the ztunnel whose image was loaded with ambient's images, empty if they were not.
	Ambient string `json:"ambient,omitempty"`
}

func (i Istio) environment() []string {
	if i.Charts == "" {
		return nil
	}
	return []string{"TARE_TEST_ISTIO_CHARTS=" + i.Charts, "TARE_TEST_ISTIO_HUB=" + i.Hub, "TARE_TEST_ISTIO_TAG=" + i.Tag, "TARE_TEST_ISTIO_AMBIENT=" + i.Ambient}
}
