package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// kind is how one kind of fault is injected into one target, and healed. [experiment.FaultKinds] describes it.
type kind struct {
	// pods: its targets are whole pods, not single tasks.
	pods bool
	// inject returns the undo that heal needs.
	inject func(context.Context, *platform.Deployment, experiment.Fault, target) (undo []byte, err error)
	// heal is nil if there is nothing to undo.
	heal func(context.Context, *platform.Deployment, experiment.Fault, target, []byte) error
	// lasting: it must be healed even before the deployment is removed.
	lasting bool
	// network is the impairment of a network, nil if the kind impairs none.
	network func(experiment.Fault) platform.Impairment
}

// kinds by name in the experiment file.
var kinds = map[string]kind{
	"kill":        {inject: endTasks(func(experiment.Fault) time.Duration { return 0 }), heal: restart},
	"terminate":   {inject: endTasks(grace), heal: restart},
	"restart":     {inject: endAndRestart},
	"pause":       {inject: freeze, heal: thaw, lasting: true},
	"scale":       {pods: true, inject: scale, heal: unscale},
	"latency":     configure(func(f experiment.Fault) any { return fields{"delay": f.Delay.String()} }),
	"errors":      configure(func(f experiment.Fault) any { return fields{"errors": fields{"ratio": f.Ratio, "status": f.Status}} }),
	"rate-limit":  configure(func(f experiment.Fault) any { return fields{"rateLimit": f.Rate} }),
	"cpu-burn":    configure(func(f experiment.Fault) any { return fields{"cpu": f.CPU.String()} }),
	"memory":      configure(func(f experiment.Fault) any { return fields{"memory": f.Memory.String()} }),
	"partition":   impair(func(experiment.Fault) platform.Impairment { return platform.Impairment{Loss: 1} }),
	"packet-loss": impair(func(f experiment.Fault) platform.Impairment { return platform.Impairment{Loss: f.Ratio} }),
	"packet-delay": impair(func(f experiment.Fault) platform.Impairment {
		return platform.Impairment{Delay: time.Duration(f.Delay)}
	}),
	"bandwidth": impair(func(f experiment.Fault) platform.Impairment { return platform.Impairment{Bandwidth: f.Rate} }),
}

// fields of a service's configuration.
type fields map[string]any

// Check checks that a platform can inject all faults. The error wraps [errors.ErrUnsupported] and has the reason for
// the first that it cannot, and the supported kinds as its hint.
func Check(faults []experiment.Fault, p platform.Faults) error {
	for i, f := range faults {
		described, known := experiment.FaultKindOf(f.Kind)
		if !known {
			return fmt.Errorf("faults[%d]: fault %q does not exist", i, f.Kind)
		}
		if reason := refusal(described, f, p); reason != "" {
			return hint.New(supported(p), "faults[%d]: fault %s: %w: %s", i, f.Kind, errors.ErrUnsupported, reason)
		}
		if network := kinds[f.Kind].network; network != nil && p.CanImpair != nil {
			if err := p.CanImpair(network(f)); err != nil {
				return fmt.Errorf("faults[%d]: fault %s: %w", i, f.Kind, err)
			}
		}
	}
	return nil
}

// refusal is the reason why a platform cannot inject a fault, "" if it can.
func refusal(described experiment.FaultKind, f experiment.Fault, p platform.Faults) string {
	if !slices.Contains(p.Abilities, described.Ability) {
		return cmp.Or(p.Lacks[described.Ability], "the platform cannot "+string(described.Ability))
	}
	if plane := f.Defaults().Target.Plane; plane != string(metric.App) {
		return p.AppOnly
	}
	return ""
}

// supported lists the kinds of faults that a platform can inject.
func supported(p platform.Faults) string {
	var names []string
	for _, k := range experiment.FaultKinds() {
		if slices.Contains(p.Abilities, k.Ability) {
			names = append(names, k.Name)
		}
	}
	if names == nil {
		return "remove the faults"
	}
	return "supported here: " + strings.Join(names, ", ")
}

// missing is the first ability of the kinds of faults that the deployment lacks, "" for none.
func missing(faults []experiment.Fault, d *platform.Deployment) experiment.Ability {
	has := map[experiment.Ability]bool{ // without a Scaler, tasks are ended one by one
		experiment.EndTasks: d.TaskFaults != nil, experiment.SuspendTasks: d.TaskFaults != nil, experiment.ScaleServices: d.TaskFaults != nil,
		experiment.ChangeServices: d.TaskFaults != nil && d.Configurer != nil, experiment.ImpairNetworks: d.TaskFaults != nil && d.NetworkFaults != nil,
	}
	for _, f := range faults {
		if k, _ := experiment.FaultKindOf(f.Kind); !has[k.Ability] {
			return k.Ability
		}
	}
	return ""
}

// target is a task, or the tasks of a pod, the application first.
type target struct {
	name  string
	tasks []string
}

// holds are the names that no other fault may hold. A kind that ends whole pods would undo the faults of their
// tasks. One that impairs their network would not.
func (k kind) holds(t target) []string {
	if !k.pods || k.network != nil {
		return []string{t.name}
	}
	return append([]string{t.name}, t.tasks...)
}

func endTasks(grace func(experiment.Fault) time.Duration) func(context.Context, *platform.Deployment, experiment.Fault, target) ([]byte, error) {
	return func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
		return nil, each(t, func(task string) error { return end(ctx, d, task, grace(f)) })
	}
}

func restart(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
	return each(t, func(task string) error { return restartTask(ctx, d, task) })
}

func endAndRestart(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
	return nil, each(t, func(task string) error {
		if err := end(ctx, d, task, grace(f)); err != nil {
			return err
		}
		return restartTask(ctx, d, task)
	})
}

func freeze(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target) ([]byte, error) {
	return nil, each(t, func(task string) error { return named("freeze", task, d.TaskFaults.Freeze(ctx, task, true)) })
}

func thaw(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
	return each(t, func(task string) error { return named("resume", task, d.TaskFaults.Freeze(ctx, task, false)) })
}

func scale(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
	if f.By < 0 {
		return nil, remove(ctx, d, f, t)
	}
	return nil, bringBack(ctx, d, t)
}

func unscale(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target, _ []byte) error {
	if f.By < 0 {
		return bringBack(ctx, d, t)
	}
	return remove(ctx, d, f, t)
}

// remove ends a pod as a cluster does: the application drains, then its sidecar ends.
func remove(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) error {
	if d.Scaler != nil {
		return named("remove", t.name, d.Scaler.Shrink(ctx, t.name, grace(f)))
	}
	for _, task := range t.tasks {
		if err := end(ctx, d, task, grace(f)); err != nil {
			return err
		}
	}
	return nil
}

func grace(f experiment.Fault) time.Duration { return time.Duration(f.Grace) }

func bringBack(ctx context.Context, d *platform.Deployment, t target) error {
	if d.Scaler != nil {
		return named("bring back", t.name, d.Scaler.Grow(ctx, t.name))
	}
	for i := range t.tasks { // the sidecar first, so that the application can call
		if err := restartTask(ctx, d, t.tasks[len(t.tasks)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// configure is a kind that changes a service, and reverts the change.
func configure(patch func(experiment.Fault) any) kind {
	return kind{
		inject: func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
			b, err := json.Marshal(patch(f))
			if err != nil {
				return nil, err
			}
			undo, err := d.Configurer.Configure(ctx, t.tasks[0], b)
			return undo, named("change", t.tasks[0], err)
		},
		heal: func(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, undo []byte) error {
			_, err := d.Configurer.Configure(ctx, t.tasks[0], undo)
			return named("change", t.tasks[0], err)
		},
	}
}

// impair returns a kind that impairs the network of a pod, shared by all its tasks.
func impair(how func(experiment.Fault) platform.Impairment) kind {
	return kind{
		pods: true, lasting: true, network: how,
		inject: func(ctx context.Context, d *platform.Deployment, f experiment.Fault, t target) ([]byte, error) {
			return nil, named("impair the network of", t.name, d.NetworkFaults.Impair(ctx, t.name, how(f)))
		},
		heal: func(ctx context.Context, d *platform.Deployment, _ experiment.Fault, t target, _ []byte) error {
			return named("mend the network of", t.name, d.NetworkFaults.Mend(ctx, t.name))
		},
	}
}

func end(ctx context.Context, d *platform.Deployment, task string, grace time.Duration) error {
	return named("end", task, d.TaskFaults.End(ctx, task, grace))
}

func restartTask(ctx context.Context, d *platform.Deployment, task string) error {
	return named("restart", task, d.TaskFaults.Restart(ctx, task))
}

// named adds to an error the verb, and the task or pod.
func named(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

func each(t target, do func(task string) error) error {
	var group errgroup.Group
	for _, task := range t.tasks {
		group.Go(routine.Guarded(func() error { return do(task) }))
	}
	return group.Wait()
}
