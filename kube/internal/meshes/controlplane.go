package meshes

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

// controlPlane checks versions and workloads of the mesh.
type controlPlane struct {
	*instance
	scaler scaler
}

// check checks the version and the workloads: ready, and as many replicas as the profile has.
func (p controlPlane) check(ctx context.Context) ([]check.Check, error) {
	var checks []check.Check
	if p.installable() {
		c, err := p.version(ctx)
		if err != nil {
			return nil, err
		}
		checks = append(checks, c)
	}
	for _, w := range p.k.Workloads {
		replicas := 0
		if w.Scaled {
			replicas = max(p.k.Profiles[p.settings.Profile].Replicas, 1)
		}
		c, err := p.workload(ctx, w, p.k.Namespace, replicas)
		if err != nil {
			return checks, err
		}
		checks = append(checks, c)
	}
	return checks, nil
}

// version compares the installed version and profile with the requested ones.
func (p controlPlane) version(ctx context.Context) (check.Check, error) {
	i, ours, err := p.installed(ctx)
	if err != nil {
		return check.Check{}, err
	}
	c := check.Check{Name: "version"}
	switch {
	case p.foreign != nil && p.requested.Version != "" && p.requested.Version != p.foreign.version:
		c.Detail, c.Hint = fmt.Sprintf("%s runs, %s is requested", p.foreign.version, p.requested.Version), "omit the version: tare did not install this mesh, and uses it as it is"
	case p.foreign != nil:
		c.OK, c.Detail = true, cmp.Or(p.foreign.version, "an unknown version")+" runs, not installed by tare"
		if p.foreign.autoscaler != "" {
			c.Caution, c.Hint = p.foreign.autoscaler, "replicas that change during a measurement falsify it: measure while they are constant"
		}
	case !ours:
		c.Detail, c.Hint = "tare has not installed it", "`tare mesh install "+p.definition.Name+"` installs it"
	case i.Version == "":
		c.Detail, c.Hint = "its installation was interrupted", "uninstall it, and install it again"
	case i.Profile != p.settings.Profile:
		c.Detail, c.Hint = fmt.Sprintf("profile %s is installed, %s is requested", i.Profile, p.settings.Profile), "uninstall it, and install the requested one"
	case !i.hasVersion(p.requested.Version):
		c.Detail, c.Hint = fmt.Sprintf("%s is installed, %s is requested", i.Version, p.requested.Version), "uninstall it, and install the requested one"
	default:
		c.OK, c.Detail = true, i.Version+" is installed"
	}
	return c, nil
}

// workload checks how many pods of a workload are ready. A scaled workload must have that number of replicas.
func (p controlPlane) workload(ctx context.Context, w mesh.Workload, namespace string, replicas int) (check.Check, error) {
	ref := RefOf(w, namespace)
	c := check.Check{Name: ref.String(), Hint: "`kubectl -n " + namespace + " describe pods` shows why"}
	o, err := p.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		c.Detail = "it does not exist"
		return c, nil
	}
	if err != nil {
		return c, err
	}
	desired := number(o, "spec", "replicas")
	ready := number(o, "status", "readyReplicas")
	if w.Kind == "DaemonSet" {
		desired, ready = number(o, "status", "desiredNumberScheduled"), number(o, "status", "numberReady")
	}
	c.Detail = fmt.Sprintf("%d of %d ready", ready, desired)
	c.OK = ready == desired && desired > 0
	if w.Scaled && desired != int64(replicas) {
		c.OK, c.Detail = false, fmt.Sprintf("%s, profile %s has %d", c.Detail, p.settings.Profile, replicas)
	}
	if w.Scaled && c.OK {
		unfixed, err := p.scaler.unfixed(ctx, ref, replicas)
		if err != nil {
			return c, err
		}
		if unfixed != "" {
			c.OK, c.Detail, c.Hint = false, c.Detail+", and "+unfixed, "replicas that change during a measurement falsify it: fix the autoscaler at that number, or remove it"
		}
	}
	if c.OK {
		c.Hint = ""
	}
	return c, nil
}

// condition checks a condition of an object's status.
func (p controlPlane) condition(ctx context.Context, condition mesh.Condition, namespace string) (check.Check, error) {
	ref := ConditionRef(condition, namespace)
	c := check.Check{Name: ref.String() + " is " + condition.Type, Detail: "it does not exist",
		Hint: "`kubectl -n " + namespace + " describe` prints its status and events"}
	o, err := p.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if c.OK, c.Detail = condition.Holds(o.Object); c.OK {
		c.Hint = ""
	}
	return c, nil
}

func number(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}
