package parts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	modules "golang.org/x/mod/module"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

const istioModule = "istio.io/istio"

// IstioHub is the hub that Istio's charts name, so that they ask for the images made here.
func IstioHub() string { return image.Hub("istio") }

// istioCharts are where the module keeps the charts that are published under the names they have in the cache.
var istioCharts = map[string]string{
	"base":    "base",
	"istiod":  "istio-control/istio-discovery",
	"gateway": "gateway",
	"cni":     "istio-cni",
	"ztunnel": "ztunnel",
}

// Istio is the module that pins Istio's control plane and the agent beside each of its Envoys.
type Istio struct{ module }

// FindIstio returns the module in dir or a directory above it.
func FindIstio(dir string) (Istio, error) {
	m, err := find(dir, "istio", modfileName)
	if err == nil && m.versions[istioModule] == "" {
		err = fmt.Errorf("read the cluster's pins: %s pins no %s", m.Dir, istioModule)
	}
	return Istio{m}, err
}

const modfileName = "go.mod"

var (
	istioPrograms = []string{istioModule + "/pilot/cmd/pilot-agent", istioModule + "/pilot/cmd/pilot-discovery"}
	// cniPrograms are the agent of the ambient mode on each node, and the plug-in that it installs.
	cniPrograms = []string{istioModule + "/cni/cmd/install-cni", istioModule + "/cni/cmd/istio-cni"}
)

// Cached is where in the cache a build of the module with this Envoy, known by its SHA-256, is or will be.
func (i Istio) Cached(cache, envoySum string) (BuiltIstio, error) {
	key, err := i.key(istioEdition, envoySum)
	return BuiltIstio{Built{Dir: filepath.Join(cache, "istio-"+key)}}, err
}

// istioEdition changes when this file makes something else of the same sources.
const istioEdition = "3"

// BuiltIstio is a directory of the cache with Istio in it.
type BuiltIstio struct{ Built }

// Charts is a directory with a chart directory in it for each of Istio's charts, by their published names, and the CRDs of
// the Gateway API, which no chart of Istio's brings, in gateway-api.
func (b BuiltIstio) Charts() string { return filepath.Join(b.Dir, "charts") }

// Tag is the tag of the images, and the version of the charts.
func (b BuiltIstio) Tag() (string, error) {
	tag, err := os.ReadFile(b.tagFile())
	if err != nil {
		return "", fmt.Errorf("read the version of Istio: %w", err)
	}
	return string(bytes.TrimSpace(tag)), nil
}

func (b BuiltIstio) tagFile() string { return filepath.Join(b.Dir, "tag") }

// Build builds missing images, with the Envoy at this path as the proxy. The caller ensures that one
// build runs at a time. The go command comes from the PATH, and its output goes to log.
func (i Istio) Build(ctx context.Context, into BuiltIstio, envoy string, log io.Writer) error {
	return into.fill(func(work Built) error {
		b := BuiltIstio{work}
		sources, err := i.download(ctx, istioModule, log)
		if err != nil {
			return err
		}
		tag, err := i.tag(sources)
		if err != nil {
			return err
		}
		if err := i.compile(ctx, filepath.Join(b.Dir, "bin"), istioFlags(tag), log, istioPrograms...); err != nil {
			return err
		}
		for name, from := range istioCharts {
			if err := istioLines.copy(filepath.Join(b.Charts(), name), filepath.Join(sources, "manifests", "charts", from), tag); err != nil {
				return fmt.Errorf("copy Istio's chart %s: %w", name, err)
			}
		}
		if err := i.copyGatewayAPI(ctx, filepath.Join(b.Charts(), "gateway-api"), "standard", log); err != nil {
			return err
		}
		if err := os.WriteFile(b.tagFile(), []byte(tag+"\n"), 0o600); err != nil {
			return fmt.Errorf("write the version of Istio: %w", err)
		}
		return packIstio(b, tag, envoy, sources)
	})
}

// tag is the version that the sources are on the way to, and the revision they are of: 1.31.0-dev.eed52ebb66ad.
func (i Istio) tag(sources string) (string, error) {
	next, err := os.ReadFile(filepath.Join(sources, "VERSION"))
	if err != nil {
		return "", fmt.Errorf("read the version of Istio: %w", err)
	}
	version := i.versions[istioModule]
	if !modules.IsPseudoVersion(version) {
		return strings.TrimPrefix(version, "v"), nil
	}
	revision, err := modules.PseudoVersionRev(version)
	if err != nil {
		return "", fmt.Errorf("read the version of Istio: %w", err)
	}
	return strings.TrimSpace(string(next)) + ".0-dev." + revision, nil
}

// istioFlags stamps the version in, as Istio's own build does: agents send it to istiod.
func istioFlags(tag string) string {
	const pkg = "istio.io/istio/pkg/version"
	return fmt.Sprintf("-s -w -X %[1]s.buildVersion=%[2]s -X %[1]s.buildTag=%[2]s -X %[1]s.buildHub=%[3]s", pkg, tag, IstioHub())
}

// istioLines are the values that Istio's release fills in before it publishes a chart.
var istioLines = edits{
	"Chart.yaml": chartVersion,
	"values.yaml": {
		{regexp.MustCompile(`(?m)^( *hub): registry\.istio\.io/testing$`), func(string) string { return "${1}: " + IstioHub() }},
		{regexp.MustCompile(`(?m)^( *tag): latest$`), func(tag string) string { return "${1}: " + tag }},
	},
}

// metadataDiscovery is the part of a waypoint's bootstrap that needs an extension of Istio's Envoy.
var metadataDiscovery = regexp.MustCompile(`(?s)\{\{- if \.metadata_discovery \}\}\s*\{\s*"name": "metadata_discovery".*?\{\{- end \}\}\s*`)

// stockBootstrap writes the template of a bootstrap that an upstream Envoy can start with as a waypoint too.
func stockBootstrap(to, from string) error {
	template, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the template of Envoy's bootstrap: %w", err)
	}
	if len(metadataDiscovery.FindAll(template, -1)) != 1 {
		return fmt.Errorf("read the template of Envoy's bootstrap: %s does not have metadata discovery as it is known", from)
	}
	if err := os.WriteFile(to, metadataDiscovery.ReplaceAll(template, nil), 0o600); err != nil {
		return fmt.Errorf("write the template of Envoy's bootstrap: %w", err)
	}
	return nil
}

// packIstio makes the images that the charts ask for by the names pilot and proxyv2.
func packIstio(b BuiltIstio, tag, envoy, sources string) error {
	if err := stockBootstrap(b.bootstrap(), filepath.Join(sources, "tools", "packaging", "common", "envoy_bootstrap.json")); err != nil {
		return err
	}
	all, err := b.images(tag, envoy)
	if err != nil {
		return err
	}
	return image.Write(b.Images(), all...)
}

func (b BuiltIstio) bootstrap() string { return filepath.Join(b.Dir, "envoy_bootstrap.json") }

// images are istiod's and the proxy's, under this tag.
func (b BuiltIstio) images(tag, envoy string) ([]image.Image, error) {
	const discovery, agent = "/usr/local/bin/pilot-discovery", "/usr/local/bin/pilot-agent"
	proxy := []image.File{
		{Path: agent, From: b.Program("pilot-agent")},
		{Path: "/usr/local/bin/envoy", From: envoy},
		{Path: "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json", From: b.bootstrap()},
	}
	needed, err := image.Dynamic(envoy)
	if err != nil {
		return nil, err
	}
	tables, err := image.IPTables("", "-nft")
	if err != nil {
		return nil, err
	}
	return []image.Image{
		// The Deployment sets runAsNonRoot without a user. The image names one, by number.
		{Reference: IstioHub() + "/pilot:" + tag, Entrypoint: []string{discovery}, User: "1337:1337",
			Files: []image.File{{Path: discovery, From: b.Program("pilot-discovery")}}},
		{Reference: IstioHub() + "/proxyv2:" + tag, Entrypoint: []string{agent}, Files: append(append(proxy, needed...), tables...)},
	}, nil
}
