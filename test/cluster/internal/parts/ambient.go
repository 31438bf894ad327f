package parts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tare-mesh/tare/test/cluster/internal/image"
)

// BuiltAmbient is a directory of the cache with the images of Istio's ambient mode: the agent of each node, from Istio's
// module, and a ztunnel that was built elsewhere, as no registry of modules has its sources.
type BuiltAmbient struct{ Built }

// CachedAmbient is where in the cache these images are or will be.
func (i Istio) CachedAmbient(cache, ztunnel string) (BuiltAmbient, error) {
	program, err := os.ReadFile(ztunnel)
	if err != nil {
		return BuiltAmbient{}, fmt.Errorf("read ztunnel: %w", err)
	}
	key, err := i.key(istioEdition, fmt.Sprintf("%x", sha256.Sum256(program)))
	return BuiltAmbient{Built{Dir: filepath.Join(cache, "ambient-"+key)}}, err
}

// BuildAmbient builds missing images for the charts of that build of Istio. The caller ensures that one build runs at a
// time. The go command comes from the PATH, and its output goes to log.
func (i Istio) BuildAmbient(ctx context.Context, into BuiltAmbient, of BuiltIstio, envoy, ztunnel string, log io.Writer) error {
	tag, err := of.Tag()
	if err != nil {
		return err
	}
	return into.fill(func(work Built) error {
		if err := i.compile(ctx, filepath.Join(work.Dir, "bin"), istioFlags(tag), log, cniPrograms...); err != nil {
			return err
		}
		return packAmbient(BuiltAmbient{work}, of, tag, envoy, ztunnel)
	})
}

// packAmbient makes the images that ambient's charts name, whose tags have a suffix: also the images of Istio's build.
func packAmbient(b BuiltAmbient, of BuiltIstio, tag, envoy, ztunnel string) error {
	tag += "-distroless"
	all, err := of.images(tag, envoy)
	if err != nil {
		return err
	}
	tables, err := image.IPTables("", "-nft")
	if err != nil {
		return err
	}
	needed, err := image.Dynamic(ztunnel)
	if err != nil {
		return err
	}
	const proxy, agent = "/usr/local/bin/ztunnel", "/usr/local/bin/install-cni"
	return image.Write(b.Images(), append(all,
		image.Image{Reference: IstioHub() + "/ztunnel:" + tag, Entrypoint: []string{proxy},
			Files: append([]image.File{{Path: proxy, From: ztunnel}}, needed...)},
		image.Image{Reference: IstioHub() + "/install-cni:" + tag, Entrypoint: []string{agent},
			Files: append([]image.File{{Path: agent, From: b.Program("install-cni")}, {Path: "/opt/cni/bin/istio-cni", From: b.Program("istio-cni")}}, tables...)})...)
}
