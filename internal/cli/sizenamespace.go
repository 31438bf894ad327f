package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
)

// countedFor is how long requests are counted at the proxies of a namespace.
const countedFor = 30 * time.Second

// sizedHere are the flags with --namespace: the proxies that run have loads of their own.
var sizedHere = []string{"namespace", "prometheus", "from", "headroom", "format", "output", "prices"}

// ofNamespace refuses flags that have no meaning with --namespace, or without.
func (o sizeOptions) ofNamespace(flags *pflag.FlagSet) error {
	if o.namespace == "" {
		if o.prometheus != "" {
			return hint.Usage(errors.New("--prometheus without --namespace"), "name the namespace where the sidecars run")
		}
		if o.format == "patch" {
			return hint.Usage(errors.New("--format patch without --namespace"), "write --format annotations, or name the namespace where the sidecars run")
		}
		return nil
	}
	var wrong []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(sizedHere, f.Name) {
			wrong = append(wrong, "--"+f.Name)
		}
	})
	if len(wrong) > 0 {
		return hint.Usage(fmt.Errorf("both --namespace and %s", strings.Join(wrong, ", ")), "remove them: the proxies of a namespace have loads of their own")
	}
	if names := report.Names(report.NeedsForms()); !slices.Contains(names, o.format) {
		return hint.Usage(fmt.Errorf("--namespace with --format %s", o.format), "write one of "+strings.Join(names, ", "))
	}
	return nil
}

// needs sizes the sidecars that run in a namespace.
func (c *CommandLine) needs(ctx context.Context, o sizeOptions) (report.Needs, error) {
	none := report.Needs{}
	headroom, err := o.share()
	if err != nil {
		return none, err
	}
	prices, err := pricesOf(o.prices)
	if err != nil {
		return none, err
	}
	if c.kubernetes == nil {
		return none, session.ErrKubernetes
	}
	var dirs []string
	if o.from != "" {
		dirs = []string{o.from}
	}
	if dirs, err = c.curves(dirs); err != nil {
		return none, err
	}
	sources, closeAll, err := sourcesOf(dirs)
	defer closeAll()
	if err != nil {
		return none, err
	}
	costs, err := predict.CostsOf(sources)
	if err != nil {
		return none, fmt.Errorf("size %s: %w", dirs[0], err)
	}
	window, rates := countedFor, fmt.Sprintf("counted at the proxies for %v", countedFor)
	if o.prometheus != "" {
		window, rates = 0, "of a mean pod in the busiest two minutes of a day, by Prometheus, times the present pods"
	} else {
		c.Notef("counting requests at the proxies of namespace %s for %v", o.namespace, countedFor)
	}
	running, err := c.kubernetes.Sidecars(ctx, o.namespace, window)
	if err != nil {
		return none, err
	}
	if o.prometheus != "" {
		if err := addRates(ctx, o.prometheus, &running); err != nil {
			return none, err
		}
	}
	mine, err := predict.CostsFor(costs, running.Mesh)
	if err != nil {
		return none, err
	}
	all, err := mine.Needs(running, headroom)
	if err != nil {
		return none, fmt.Errorf("size namespace %s: %w", o.namespace, err)
	}
	return report.NewNeeds(running, rates, all, prices), nil
}

// addRates adds the requests/s of a mean pod in the busiest two minutes of a day: autoscalers change the number of pods. Of a younger
// Prometheus they are the present ones.
func addRates(ctx context.Context, prometheus string, s *predict.Sidecars) error {
	found := false
	for _, side := range []struct{ reporter, label string }{{"destination", "destination_workload"}, {"source", "source_workload"}} {
		now := fmt.Sprintf(`avg by (%s) (sum by (%s, pod, instance) (rate(istio_requests_total{reporter=%q, %s_namespace=%q}[2m])))`, side.label, side.label, side.reporter, side.label, s.Namespace)
		rates := func(query string, add func(w int, rate float64)) error {
			samples, err := scrape.Query(ctx, prometheus, query)
			for _, sample := range samples {
				i := slices.IndexFunc(s.Workloads, func(w predict.Workload) bool { return w.Name == sample.Labels[side.label] })
				if i >= 0 && sample.Value > 0 {
					add(i, sample.Value*float64(s.Workloads[i].Pods))
				}
			}
			return hint.Wrap(err, "--prometheus takes the address that `kubectl port-forward` of its Service prints, such as http://localhost:9090")
		}
		of := func(i int) (busiest, share *float64) {
			if w := &s.Workloads[i]; side.reporter == "source" {
				return &w.Sent, &w.Present.Sent
			} else {
				return &w.Received, &w.Present.Received
			}
		}
		err := rates(fmt.Sprintf("max_over_time(%s[1d:1m]) or %s", now, now), func(i int, rate float64) {
			found = true
			busiest, _ := of(i)
			*busiest = rate
		})
		if err == nil {
			err = rates(now, func(i int, rate float64) {
				if busiest, share := of(i); *busiest > 0 {
					*share = rate / *busiest
				}
			})
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return hint.New("leave --prometheus out: tare then counts requests at the proxies", "Prometheus has no istio_requests_total of a workload in namespace %s", s.Namespace)
	}
	return nil
}
