package meshes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/kube/cluster"
)

// Target is what is verified.
type Target struct {
	Namespace string // the application's; empty: the control plane alone is looked at
	// LoadInside says that the load generator's pods must be in the mesh; otherwise they must not.
	LoadInside bool
	// Front is what the mesh's ingress gateway leads to, where the load comes through it; the load is then outside.
	Front *mesh.Front
	// Traffic returns what a pod in the mesh has to do with the others; nil: that is not known, and each must show either that
	// it is asked or that it asks.
	Traffic func(*corev1.Pod) PodTraffic
	// IsLoad tells the load generator's pods; nil: those with a container "load".
	IsLoad func(*corev1.Pod) bool
	// Probe sends requests through the application from where the load comes, and says how many were answered. Counters
	// must then move. nil: they must have moved already.
	Probe func(ctx context.Context) (answered int, err error)
	// Plaintext sends a request without TLS to a pod's port from a pod outside of the mesh, and says what became of it. It
	// is used where a mesh lets in what comes from nodes; elsewhere the API server, which is outside of every mesh, asks.
	// nil: there is no such pod, and nothing is asked.
	Plaintext func(ctx context.Context, pod *corev1.Pod, port int32) (admitted bool, detail string, err error)
}

// Times of verification.
const (
	verifyWithin = time.Minute     // where the caller's context has no deadline
	lookAgain    = 2 * time.Second // a mesh that has just been changed takes its time until proxies have heard of it
)

// Verify looks at the control plane, at each pod of the namespace, and at what the data plane counts. What does not hold
// is looked at again until ctx's deadline (a minute without one), since a mesh follows its configuration with some delay;
// then it is in the answer as a check that failed. The error says that looking itself failed.
func (m *Mesh) Verify(ctx context.Context, t Target) ([]check.Check, error) {
	ctx, cancel := within(ctx, verifyWithin)
	defer cancel()
	if m.definition.Kubernetes == nil {
		return nil, nil
	}
	if err := m.adopt(ctx); err != nil {
		return nil, fmt.Errorf("verify mesh %s: %w", m.definition.Name, err)
	}
	if t.IsLoad == nil {
		t.IsLoad = func(p *corev1.Pod) bool { return hasContainer(p, "load") }
	}
	said, begun := "", &counting{first: map[string]readings{}, last: map[string]readings{}}
	for {
		checks, err := m.look(ctx, t, begun)
		if err != nil {
			return checks, fmt.Errorf("verify mesh %s: %w", m.definition.Name, err)
		}
		failed := slices.IndexFunc(checks, func(c check.Check) bool { return !c.OK })
		if failed < 0 {
			return checks, nil
		}
		if s := checks[failed].Name + ": " + checks[failed].Detail; s != said {
			said = s
			m.report("waiting: %s", s)
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return checks, nil
		case <-again.C:
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < lookAgain {
			return checks, nil // another look would be cut short
		}
	}
}

// adopt takes the settings that were not asked for from what is installed.
func (m *Mesh) adopt(ctx context.Context) error {
	i, ours, err := m.found(ctx)
	if err != nil || !ours || i.Version == "" {
		return err
	}
	s := i.Settings()
	s.Version, s.Profile, s.Hub = m.asked.Version, cmp.Or(m.asked.Profile, s.Profile), cmp.Or(m.asked.Hub, s.Hub)
	options := maps.Clone(s.Options)
	if options == nil {
		options = map[string]string{}
	}
	maps.Copy(options, m.asked.Options)
	s.Options = options
	m.settings, err = m.k.Complete(s)
	return err
}

func (m *Mesh) look(ctx context.Context, t Target, begun *counting) ([]check.Check, error) {
	checks, err := m.control(ctx)
	if err != nil || t.Namespace == "" {
		return checks, err
	}
	pods, err := m.pods(ctx, t.Namespace, "")
	if err != nil {
		return checks, err
	}
	enrolled, err := m.Enrol(t.Namespace, t.way())
	if err != nil {
		return checks, err
	}
	for _, w := range enrolled.Workloads {
		c, err := m.workload(ctx, w, t.Namespace, enrolled.Replicas)
		if err != nil {
			return checks, err
		}
		checks = append(checks, c)
	}
	for _, c := range enrolled.Conditions {
		held, err := m.condition(ctx, c, t.Namespace)
		if err != nil {
			return checks, err
		}
		checks = append(checks, held)
	}
	split := m.split(pods, t)
	checks = append(checks, m.inside(split, enrolled.Proof)...)
	checks = append(checks, m.outside(split, enrolled.Proof)...)
	counted, err := m.counted(ctx, t, split, begun)
	if err != nil {
		return checks, err
	}
	checks = append(checks, counted...)
	plain, err := m.plaintext(ctx, t, split)
	return append(checks, plain...), err
}

// control looks at the control plane: versions as asked, workloads ready and as many as the profile has.
func (m *Mesh) control(ctx context.Context) ([]check.Check, error) {
	var checks []check.Check
	if !m.nothing() {
		i, ours, err := m.found(ctx)
		if err != nil {
			return nil, err
		}
		c := check.Check{Name: "version", OK: ours && i.Version != "", Detail: "tare has not installed it", Hint: "`tare mesh install " + m.definition.Name + "` does"}
		if ours {
			c.Detail = i.Version + " is installed"
			if c.Hint = ""; m.asked.Version != "" && m.asked.Version != i.Version && !slices.ContainsFunc(i.Charts, func(c InstalledChart) bool { return c.Version == m.asked.Version }) {
				c.OK, c.Detail, c.Hint = false, c.Detail+", asked for is "+m.asked.Version, "uninstall it, and install that one"
			}
			if i.Version != "" && i.Profile != m.settings.Profile {
				c.OK, c.Detail, c.Hint = false, fmt.Sprintf("profile %s is installed, asked for is %s", i.Profile, m.settings.Profile), "uninstall it, and install that one"
			}
		}
		checks = append(checks, c)
	}
	for _, w := range m.k.Workloads {
		replicas := 0
		if w.Scaled {
			replicas = max(m.k.Profiles[m.settings.Profile].Replicas, 1)
		}
		c, err := m.workload(ctx, w, m.k.Namespace, replicas)
		if err != nil {
			return checks, err
		}
		checks = append(checks, c)
	}
	return checks, nil
}

// workload says how many of a workload are ready; replicas is how many there must be, 0: as many as it wants itself.
func (m *Mesh) workload(ctx context.Context, w mesh.Workload, namespace string, replicas int) (check.Check, error) {
	ref := refOf(w, namespace)
	c := check.Check{Name: ref.String(), Hint: "`kubectl -n " + namespace + " describe pods` shows why"}
	o, err := m.cluster.Get(ctx, ref)
	if cluster.IsNotFound(err) {
		c.Detail = "it is not there"
		return c, nil
	}
	if err != nil {
		return c, err
	}
	wanted := number(o, "spec", "replicas")
	ready := number(o, "status", "readyReplicas")
	if w.Kind == "DaemonSet" {
		wanted, ready = number(o, "status", "desiredNumberScheduled"), number(o, "status", "numberReady")
	}
	c.Detail = fmt.Sprintf("%d of %d ready", ready, wanted)
	c.OK = ready == wanted && wanted > 0
	if w.Scaled && wanted != int64(replicas) {
		c.OK, c.Detail = false, fmt.Sprintf("%s, profile %s has %d", c.Detail, m.settings.Profile, replicas)
	}
	if w.Scaled && c.OK {
		loose, err := m.unheld(ctx, ref, replicas)
		if err != nil {
			return c, err
		}
		if loose != "" {
			c.OK, c.Detail, c.Hint = false, c.Detail+", and "+loose, "replicas that come and go while it is measured are measured too: hold it at that number, or remove it"
		}
	}
	if c.OK {
		c.Hint = ""
	}
	return c, nil
}

func number(o *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, path...)
	return n
}

// pods lists the pods of a namespace that run or are to run.
func (m *Mesh) pods(ctx context.Context, namespace, selector string) ([]*corev1.Pod, error) {
	var all []*corev1.Pod
	err := m.cluster.Retry(ctx, "list the pods of "+namespace, func(ctx context.Context) error {
		list, err := m.cluster.Typed().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		all = nil
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil {
				all = append(all, p)
			}
		}
		return nil
	})
	return all, err
}

// names lists pods for people.
func names(pods []*corev1.Pod) string {
	const most = 5
	var all []string
	for _, p := range pods[:min(most, len(pods))] {
		all = append(all, p.Name)
	}
	s := strings.Join(all, ", ")
	if more := len(pods) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
