package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	cluster "github.com/tare-mesh/tare/test/cluster"
	"github.com/tare-mesh/tare/test/cluster/internal/debian"
	"github.com/tare-mesh/tare/test/cluster/internal/parts"
)

// mesh is a mesh whose images and charts can be made on this machine: build only makes them, add loads the images into a
// cluster that is up as well.
type mesh struct {
	build func(context.Context, cluster.Layout) (string, error)
	add   func(context.Context, cluster.Layout) (cluster.Layout, error)
}

var addable = func() map[string]mesh {
	all := map[string]mesh{
		"istio": {buildIstio, addIstio},
		// The image of ztunnel is made of a program that was built elsewhere.
		"istio-ambient": {buildIstio, addAmbient},
	}
	for _, name := range parts.Gateways() {
		all[name] = gateway(name)
	}
	return all
}()

// ztunnelVariable names a ztunnel for this system's processors.
const ztunnelVariable = "TARE_ZTUNNEL"

func meshes() []string { return slices.Sorted(maps.Keys(addable)) }

// known is an error if a mesh was named that cannot be made here.
func (p *place) known() error {
	for _, name := range p.with {
		if _, ok := addable[name]; !ok {
			return fmt.Errorf("--with %s: not one of %s", name, strings.Join(meshes(), ", "))
		}
	}
	return nil
}

func buildIstio(ctx context.Context, l cluster.Layout) (string, error) {
	source, err := parts.FindIstio(".")
	if err != nil {
		return "", err
	}
	if err := debian.Install(ctx, os.Stderr); err != nil { // iptables becomes part of an image
		return "", err
	}
	built, err := cluster.BuildIstio(ctx, l, source, os.Stderr)
	return built.Dir, err
}

func addIstio(ctx context.Context, l cluster.Layout) (cluster.Layout, error) {
	source, err := parts.FindIstio(".")
	if err != nil {
		return l, err
	}
	return cluster.AddIstio(ctx, l, source, os.Stderr)
}

func addAmbient(ctx context.Context, l cluster.Layout) (cluster.Layout, error) {
	ztunnel := os.Getenv(ztunnelVariable)
	if ztunnel == "" {
		return l, fmt.Errorf("--with istio-ambient: %s names no ztunnel; its sources are in no registry, so build it elsewhere", ztunnelVariable)
	}
	source, err := parts.FindIstio(".")
	if err != nil {
		return l, err
	}
	return cluster.AddAmbient(ctx, l, source, ztunnel, os.Stderr)
}

func gateway(name string) mesh {
	return mesh{
		build: func(ctx context.Context, l cluster.Layout) (string, error) {
			source, err := parts.FindGateway(name, ".")
			if err != nil {
				return "", err
			}
			built, err := cluster.BuildGateway(ctx, l, source, os.Stderr)
			return built.Dir, err
		},
		add: func(ctx context.Context, l cluster.Layout) (cluster.Layout, error) {
			source, err := parts.FindGateway(name, ".")
			if err != nil {
				return l, err
			}
			return cluster.AddGateway(ctx, l, source, os.Stderr)
		},
	}
}
