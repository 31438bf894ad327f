package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/inside/proxy"
)

func newProxyCommand() *cobra.Command {
	var (
		config string
		weight proxy.Weight
	)
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Run a plain sidecar proxy with a configurable cost",
		Long: `proxy is the reference proxy, the standard weight that the scale is checked
with: a plain HTTP proxy, with mutual TLS where the configuration names a
certificate. Burn and delay lie on the way in to a service, so that a call
between two services bears them once.`,
		Example: `  tare-agent proxy --config sidecar.yaml --burn 100us`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readSidecar(config)
			if err != nil {
				return err
			}
			if c.Concurrency > 0 {
				runtime.GOMAXPROCS(c.Concurrency)
			}
			p, err := proxy.New(c, weight)
			if err != nil {
				return err
			}
			return p.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&config, "config", "", "`file` with the sidecar's pod, its servers and clients, as JSON")
	f.DurationVar(&weight.Burn, "burn", 0, "CPU `time` to burn per inbound request, such as 100us")
	f.DurationVar(&weight.Deferred, "defer", 0, "CPU `time` to burn per inbound request after its answer")
	f.DurationVar(&weight.DeferredBy, "defer-by", 0, "`time` from the answer to the deferred work")
	f.DurationVar(&weight.Flush, "flush", 0, "`period` after which the deferred work of all requests is done at once")
	f.Float64Var(&weight.Steady, "steady", 0, "`cores` to use with and without requests")
	f.DurationVar(&weight.Delay, "delay", 0, "`time` to delay each inbound request, without CPU")
	f.IntVar(&weight.Leak, "leak", 0, "memory to keep of each inbound request, in `KiB`")
	f.IntVar(&weight.Memory, "memory", 0, "memory to hold, in `MiB`")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

// readSidecar reads the output of a mesh definition's template `{{json .}}`.
func readSidecar(path string) (mesh.SidecarContext, error) {
	var c mesh.SidecarContext
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("read the sidecar's configuration: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxConfig))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, fmt.Errorf("read the sidecar's configuration %s: %w", path, err)
	}
	return c, nil
}
