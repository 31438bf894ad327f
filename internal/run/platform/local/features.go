package local

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/base/check"
)

const featureHint = "the option has no effect on these requests; see the proxies' configurations and logs in the trial's provenance directory"

// featureFlows are the counters that show that options act on the probes, in the sidecars of one service.
func (v *verifier) featureFlows(pods []*pod, calls map[string]called, visits called) ([]flow, error) {
	var all []flow
	add := func(p *pod, name, counter string, want int64) {
		i := slices.IndexFunc(all, func(f flow) bool { return f.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, flow{name: name, want: want, sidecars: true, atLeast: true, hint: featureHint})
		}
		all[i].parts = append(all[i].parts, part{p, counter})
	}
	for _, p := range pods {
		names, err := p.counterNames()
		if err != nil {
			return nil, err
		}
		for _, f := range names.Features {
			add(p, fmt.Sprintf("option %s in the sidecar of %s", f.Option, p.service), f.Counter, visits.atLeast())
		}
		for _, o := range names.Outbound {
			for _, f := range o.Features {
				add(p, fmt.Sprintf("option %s from the sidecar of %s to %s", f.Option, p.service, o.Service), f.Counter, calls[o.Service].atLeast())
			}
		}
	}
	return all, nil
}

// dumped checks the texts of options in the configuration dumps of callers.
func (v *verifier) dumped(dumps map[*pod]dump) (checks []check.Check) {
	if !v.layout.proxied() {
		return nil
	}
	for _, f := range v.layout.spec.Mesh.Local.Features() {
		for _, p := range v.layout.proxiedPods() {
			if len(f.Dump) == 0 || len(p.sidecar.Outbound) == 0 {
				continue
			}
			c := check.Check{Name: fmt.Sprintf("option %s in the configuration of %s", f.Option, p.name), OK: true, Detail: "the configuration dump has it"}
			for _, text := range f.Dump {
				switch read := dumps[p]; {
				case read.err != nil:
					c.OK, c.Detail, c.Hint = false, read.err.Error(), "the processors may be too busy for a sidecar with so much configuration"
				case !bytes.Contains(read.text, []byte(text)):
					c.OK, c.Detail, c.Hint = false, "the configuration dump has no "+text, featureHint
				}
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// workers checks the number of worker threads of each sidecar.
func (v *verifier) workers(ctx context.Context) (checks []check.Check) {
	if !v.layout.proxied() || v.layout.spec.Mesh.Local.Verify.Workers == "" {
		return nil
	}
	gauge, want := v.layout.spec.Mesh.Local.Verify.Workers, int64(max(v.layout.spec.Mesh.Local.Sidecar.Concurrency, 1))
	for _, p := range v.layout.proxiedPods() {
		gauges, err := p.admin.gauges(ctx)
		c := check.Check{Name: "workers of " + p.proxyText(), OK: err == nil && gauges[gauge] == want,
			Detail: fmt.Sprintf("%s is %d, %d expected", gauge, gauges[gauge], want)}
		if err != nil {
			c.Detail = err.Error()
		}
		if !c.OK {
			c.Hint = "the program does not take the number of workers from its arguments"
		}
		checks = append(checks, c)
	}
	return checks
}
