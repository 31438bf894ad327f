package meshes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/base/scrape"
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

// ControlTimes reads what the pods of a control plane count of their stages. A histogram that a pod lacks is absent.
func ControlTimes(ctx context.Context, c *cluster.Cluster, k mesh.Kubernetes) (all []mesh.CountedTime, err error) {
	r := podReader{c}
	pods, err := r.list(ctx, k.Namespace)
	if err != nil {
		return nil, err
	}
	for _, p := range pods {
		pages := map[string][]scrape.Sample{}
		for _, t := range k.ControlTimes {
			if !t.Selects(p.Labels) {
				continue
			}
			page, err := r.page(ctx, pages, t.Port, t.Path, p)
			if err != nil {
				return nil, err
			}
			if counted, has := histogram(page, t.Metric, t.Scale()); has {
				counted.Stage, counted.Instance = t.Stage, string(p.UID)+restarts(p)
				all = append(all, counted)
			}
		}
	}
	return all, nil
}

// restarts distinguishes the processes of a pod.
func restarts(p *corev1.Pod) (all string) {
	for _, s := range p.Status.ContainerStatuses {
		all += "." + strconv.Itoa(int(s.RestartCount))
	}
	return all
}

// histogram returns the histogram of a family, over all of its labels. scale is its unit in seconds.
func histogram(page []scrape.Sample, name string, scale float64) (t mesh.CountedTime, has bool) {
	t.Within = map[float64]int64{}
	for _, s := range page {
		switch s.Name {
		case name + "_count":
			t.Count += int64(s.Value)
			has = true
		case name + "_sum":
			t.Seconds += scale * s.Value
		case name + "_bucket":
			if bound, err := strconv.ParseFloat(s.Labels["le"], 64); err == nil && !math.IsInf(bound, 0) {
				t.Within[scale*bound] += int64(s.Value)
			}
		}
	}
	return t, has
}

// scaler fixes the number of replicas of workloads that a mesh's controllers create.
type scaler struct {
	cluster *cluster.Cluster
	report  func(string)
}

// unfixed describes an autoscaler that can change a number of replicas, empty if there is none.
func (s scaler) unfixed(ctx context.Context, ref cluster.Ref, replicas int) (string, error) {
	found := ""
	err := s.cluster.Retry(ctx, "list the autoscalers of "+ref.String(), func(ctx context.Context) error {
		autoscalers, err := s.autoscalers(ctx, ref)
		if apierrors.IsForbidden(err) {
			return nil // without permission only the current number of replicas is checked
		}
		for _, h := range autoscalers {
			least := int32(1)
			if h.Spec.MinReplicas != nil {
				least = *h.Spec.MinReplicas
			}
			if int(least) != replicas || int(h.Spec.MaxReplicas) != replicas {
				found = fmt.Sprintf("autoscaler %s can change it to %d to %d", h.Name, least, h.Spec.MaxReplicas)
			}
		}
		return err
	})
	return found, err
}

// waitScaled waits until a workload is ready, and if scaled is set gives it a number of replicas and waits for them. An
// autoscaler, which newer charts include, is fixed at that number: it would revert the change.
func (s scaler) waitScaled(ctx context.Context, ref cluster.Ref, scaled bool, replicas int32) error {
	if err := s.cluster.WaitReady(ctx, s.report, ref); err != nil || !scaled {
		return err
	}
	if err := s.fixAutoscalers(ctx, ref, replicas); err != nil {
		return err
	}
	err := s.cluster.Retry(ctx, "scale "+ref.String(), func(ctx context.Context) error {
		to := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
		var err error
		if ref.Kind == cluster.KindStatefulSet {
			_, err = s.cluster.Typed().AppsV1().StatefulSets(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		} else {
			_, err = s.cluster.Typed().AppsV1().Deployments(ref.Namespace).UpdateScale(ctx, ref.Name, to, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.cluster.WaitReady(ctx, s.report, ref)
}

func (s scaler) fixAutoscalers(ctx context.Context, ref cluster.Ref, replicas int32) error {
	return s.cluster.Retry(ctx, "fix the autoscaler of "+ref.String(), func(ctx context.Context) error {
		autoscalers, err := s.autoscalers(ctx, ref)
		if err != nil {
			return err
		}
		for _, h := range autoscalers {
			patch := fmt.Appendf(nil, `{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, replicas, replicas)
			if _, err := s.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).Patch(ctx, h.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s scaler) autoscalers(ctx context.Context, ref cluster.Ref) ([]autoscalingv1.HorizontalPodAutoscaler, error) {
	list, err := s.cluster.Typed().AutoscalingV1().HorizontalPodAutoscalers(ref.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(h autoscalingv1.HorizontalPodAutoscaler) bool {
		return h.Spec.ScaleTargetRef.Kind != ref.Kind.Kind || h.Spec.ScaleTargetRef.Name != ref.Name
	}), nil
}
