package parts

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

// gateway is the recipe for a controller of gateways, whose proxy is Envoy.
type gateway struct {
	module, program string            // path of the Go module, and of its program's package below it
	version         string            // variable that its own build sets, by its package below the module
	channel         string            // of the Gateway API's CRDs that it watches
	file            string            // of the program in its image
	objects         map[string]source // charts and CRDs, by their names in a directory of charts
}

// source is a directory of the module, or only one of its files.
type source struct {
	dir, only string
	edits     edits
}

// gateways are the recipes by the name of the mesh, which is also a directory beside this module's.
var gateways = map[string]gateway{
	"envoy-gateway": {
		module: "github.com/envoyproxy/gateway", program: "cmd/envoy-gateway", version: "internal/cmd/version.envoyGatewayVersion",
		channel: "standard", file: "/usr/local/bin/envoy-gateway",
		objects: map[string]source{
			"gateway-helm": {dir: "charts/gateway-helm", edits: edits{
				"Chart.yaml": chartVersion,
				"values.tmpl.yaml": {
					{regexp.MustCompile(`(image): \$\{GatewayImage\}`), func(version string) string { return "${1}: " + controllerImage("envoy-gateway", version) }},
					{regexp.MustCompile(`(pullPolicy): \$\{GatewayImagePullPolicy\}`), func(string) string { return "${1}: IfNotPresent" }},
					{regexp.MustCompile(`(\n +envoyProxy:(?:\n +#.*)*\n +image): ""`), func(version string) string { return "${1}: " + proxyImage("envoy-gateway", version) }},
				},
			}},
			"envoy-gateway-crds": {dir: "charts/gateway-helm/charts/crds/crds/generated"},
		},
	},
	"contour": {
		module: "github.com/projectcontour/contour", program: "cmd/contour", version: "internal/build.Version",
		channel: "experimental", file: "/bin/contour",
		objects: map[string]source{
			"contour-crds": {dir: "examples/contour", only: "01-crds.yaml"},
			"contour-gateway-provisioner": {dir: "examples/gateway-provisioner", edits: edits{"03-gateway-provisioner.yaml": {
				{regexp.MustCompile(`(image): .*`), func(version string) string { return "${1}: " + controllerImage("contour", version) }},
				{regexp.MustCompile(`( +- )--enable-leader-election`), func(version string) string {
					return "${0}\n${1}--contour-image=" + controllerImage("contour", version) + "\n${1}--envoy-image=" + proxyImage("contour", version)
				}},
			}}},
		},
	},
}

func controllerImage(name, version string) string {
	return image.Reference(name+"/controller", version)
}

func proxyImage(name, version string) string { return image.Reference(name+"/envoy", version) }

// Gateways lists the gateways that can be built here.
func Gateways() []string { return slices.Sorted(maps.Keys(gateways)) }

// Gateway is the module that pins a controller of gateways.
type Gateway struct {
	module
	gateway
	name string
}

// FindGateway returns the module of a gateway in dir or a directory above it.
func FindGateway(name, dir string) (Gateway, error) {
	g := Gateway{name: name, gateway: gateways[name]}
	var err error
	g.module, err = find(dir, name, modfileName)
	if err == nil && g.Version() == "" {
		err = fmt.Errorf("read the cluster's pins: %s pins no %s", g.Dir, g.gateway.module)
	}
	return g, err
}

// Name is the name of the mesh's definition.
func (g Gateway) Name() string { return g.name }

// Version is the version of the gateway, and the tag of its images.
func (g Gateway) Version() string { return g.versions[g.gateway.module] }

// Cached is where in the cache a build of the module with this Envoy, known by its SHA-256, is or will be.
func (g Gateway) Cached(cache, envoySum string) (BuiltGateway, error) {
	key, err := g.key(gatewayEdition, envoySum)
	return BuiltGateway{Built{Dir: filepath.Join(cache, g.name+"-"+key)}}, err
}

// gatewayEdition changes when this file makes something else of the same sources.
const gatewayEdition = "1"

// BuiltGateway is a directory of the cache with a gateway in it.
type BuiltGateway struct{ Built }

// Charts is a directory with the gateway's chart or manifests, its CRDs and the Gateway API's.
func (b BuiltGateway) Charts() string { return filepath.Join(b.Dir, "charts") }

// Build builds missing images, with the Envoy at this path as the proxy. The caller ensures that one build runs at a
// time. The go command comes from the PATH, and its output goes to log.
func (g Gateway) Build(ctx context.Context, into BuiltGateway, envoy string, log io.Writer) error {
	return into.fill(func(work Built) error {
		b := BuiltGateway{work}
		sources, err := g.download(ctx, g.gateway.module, log)
		if err != nil {
			return err
		}
		flags := fmt.Sprintf("-s -w -X %s/%s=%s", g.gateway.module, g.version, g.Version())
		if err := g.compile(ctx, filepath.Join(b.Dir, "bin"), flags, log, g.gateway.module+"/"+g.program); err != nil {
			return err
		}
		for name, from := range g.objects {
			err := from.edits.copy(filepath.Join(b.Charts(), name, from.only), filepath.Join(sources, filepath.FromSlash(from.dir), from.only), g.Version())
			if err != nil {
				return fmt.Errorf("copy %s of %s: %w", name, g.name, err)
			}
		}
		if err := g.copyGatewayAPI(ctx, filepath.Join(b.Charts(), "gateway-api"), g.channel, log); err != nil {
			return err
		}
		return g.pack(b, envoy)
	})
}

// pack makes the images of the controller and of its proxy.
func (g Gateway) pack(b BuiltGateway, envoy string) error {
	needed, err := image.Dynamic(envoy)
	if err != nil {
		return err
	}
	return image.Write(b.Images(),
		image.Image{Reference: controllerImage(g.name, g.Version()), Entrypoint: []string{g.file},
			Files: []image.File{{Path: g.file, From: b.Program(filepath.Base(g.program))}}},
		image.Image{Reference: proxyImage(g.name, g.Version()), Entrypoint: []string{"/usr/local/bin/envoy"},
			Files: append([]image.File{{Path: "/usr/local/bin/envoy", From: envoy}}, needed...)})
}
