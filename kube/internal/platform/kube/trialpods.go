package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/base/wait"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/kube/internal/agents"
	"github.com/tare-mesh/tare/kube/internal/cluster"
)

const (
	// endTimeout bounds how long a pod may take to end beyond its grace period.
	endTimeout = time.Minute
	// replaceTimeout bounds how long the replacement of a pod may take to be ready.
	replaceTimeout = 3 * time.Minute
	// pollInterval is the interval of checks of the followed pods for an awaited change.
	pollInterval = 50 * time.Millisecond
)

// trialPods are the followed pods of a trial, each with a stable name: its service and its slot.
type trialPods struct {
	*trial
	store *podStore // nil in a dry run
	slots slots
	// failed are pods that had ended before the trial followed them, such as evicted ones of an application in place.
	failed map[types.UID]bool
}

// leaveOutFailed excludes the pods that have failed until now. Nothing runs in them.
func (p *trialPods) leaveOutFailed() {
	p.failed = map[types.UID]bool{}
	for _, pod := range p.inCluster() {
		if pod.Status.Phase == corev1.PodFailed {
			p.failed[pod.UID] = true
		}
	}
}

// followed reports whether pods are followed, which they are not in a dry run.
func (p *trialPods) followed() bool { return p.store != nil }

func (p *trialPods) close() {
	if p.store != nil {
		p.store.close()
	}
}

var (
	errNoService = errors.New("no such service")
	errEnded     = errors.New("already ended")
)

// find is the pod of a fault victim, e.g. "echo-0/app", or [errEnded] if it has none at the moment.
func (p *trialPods) find(id string) (*corev1.Pod, error) {
	name, isApp := strings.CutSuffix(id, "/"+appContainer)
	service, number, ok := p.slots.find(name)
	if !isApp || !ok {
		return nil, errNoService
	}
	pod := p.current(service, number)
	if pod == nil {
		return nil, errEnded
	}
	return pod, nil
}

// awaitDeleted waits until a pod is gone from the cluster.
func (p *trialPods) awaitDeleted(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	return wait.Within(ctx, grace+endTimeout, pollInterval, func(context.Context) error {
		if p.byUID(pod.UID) != nil {
			return fmt.Errorf("pod %s does not end", pod.Name)
		}
		return nil
	})
}

// byUID is a pod of the trial, or nil if it is gone.
func (p *trialPods) byUID(uid types.UID) *corev1.Pod {
	pod, _ := lists.First(p.all(), func(pod *corev1.Pod) bool { return pod.UID == uid })
	return pod
}

// awaitReplacement waits until a new pod in a slot is ready.
func (p *trialPods) awaitReplacement(ctx context.Context, service string, number int) (pod *corev1.Pod, err error) {
	err = wait.Within(ctx, replaceTimeout, pollInterval, func(context.Context) error {
		if pod = p.current(service, number); pod == nil || !cluster.PodReady(pod) {
			return errors.New("no replacement pod is ready")
		}
		return nil
	})
	if err != nil {
		why := p.cluster.Explain(context.WithoutCancel(ctx), cluster.Ref{Kind: cluster.KindDeployment, Namespace: p.namespace, Name: service})
		return nil, fmt.Errorf("%w: %s", err, strings.Join(why, "; "))
	}
	return pod, nil
}

// current is the pod in a slot, or nil if the slot is vacant or its pod is being deleted.
func (p *trialPods) current(service string, number int) *corev1.Pod {
	pods := p.ofService(service)
	name := p.slots.occupant(service, number)
	pod, _ := lists.First(pods, func(pod *corev1.Pod) bool { return pod.Name == name && pod.DeletionTimestamp == nil })
	return pod
}

// ofService returns the pods of a service. Each has a slot afterwards.
func (p *trialPods) ofService(service string) []*corev1.Pod {
	pods := slices.DeleteFunc(p.all(), func(pod *corev1.Pod) bool { return p.serviceOf(pod) != service })
	for _, pod := range pods {
		p.name(pod)
	}
	return pods
}

func (p *trialPods) all() []*corev1.Pod {
	return slices.DeleteFunc(p.inCluster(), func(pod *corev1.Pod) bool { return !p.owns(pod) || p.failed[pod.UID] })
}

func (p *trialPods) onNode(node string) bool {
	return slices.ContainsFunc(p.all(), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node })
}

// inCluster are the pods of the whole cluster, or of the trial's namespace without permission to list others.
func (p *trialPods) inCluster() []*corev1.Pod {
	if p.store == nil {
		return nil
	}
	return p.store.all()
}

// name is the stable name of a pod, e.g. "echo-1".
func (p *trialPods) name(pod *corev1.Pod) string {
	name, _ := p.generation(pod)
	return name
}

// generation is the stable name of a pod and its generation under this name, from 1.
func (p *trialPods) generation(pod *corev1.Pod) (name string, generation int) {
	service := p.serviceOf(pod)
	if index, ok := pod.Annotations[indexAnnotation]; ok && service == loadService {
		return loadService + "-" + index, 1
	}
	if service == "" {
		return pod.Name, 1
	}
	number, generation := p.slots.assign(service, pod.Name)
	return slotName(service, number), generation
}

// podStore follows the pods of the cluster with a watch, but for those of simulated nodes, in which nothing runs. The API server gets no requests during the measurement, and the
// last known pods remain available while it is down.
type podStore struct {
	informer  cache.SharedIndexInformer
	simulated map[string]bool // nodes
	close     func()
}

// followPods returns once all pods are listed. It calls changed for every pod that appears, changes or is deleted. Without
// permission to list pods of all namespaces it follows the trial's namespace only.
func followPods(ctx context.Context, c *cluster.Cluster, namespace string, changed func(pod *corev1.Pod, deleted bool)) (*podStore, error) {
	scope := metav1.NamespaceAll
	err := c.Retry(ctx, "list the pods of every namespace", func(ctx context.Context) error {
		_, err := c.Typed().CoreV1().Pods(scope).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if apierrors.IsForbidden(err) {
		scope, err = namespace, nil
	}
	if err != nil {
		return nil, err
	}
	simulated, err := c.SimulatedNodes(ctx)
	if err != nil {
		return nil, err
	}
	lw := listWatch(c.Typed().CoreV1().Pods(scope))
	s := &podStore{informer: cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, cache.Indexers{}), simulated: simulated}
	_ = s.informer.SetTransform(dropManagedFields) // fails only on a started informer
	if s.close, err = follow(ctx, "pods", s.informer, func(pod *corev1.Pod, deleted bool) {
		if !simulated[pod.Spec.NodeName] {
			changed(pod, deleted)
		}
	}); err != nil {
		return nil, err
	}
	return s, nil
}

// listWatch lists and watches the objects that a typed client has.
func listWatch[List runtime.Object](objects interface {
	List(ctx context.Context, o metav1.ListOptions) (List, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: objects.Watch,
	}
}

// follow runs an informer until stop is called, which may be more than once. It returns once all objects are listed, and
// calls changed for every object that appears, changes or is deleted.
func follow[Object any](ctx context.Context, what string, informer cache.SharedIndexInformer, changed func(o Object, deleted bool)) (stop func(), err error) {
	call := func(o any, deleted bool) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if object, ok := o.(Object); ok {
			changed(object, deleted)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { call(o, false) },
		UpdateFunc: func(_, o any) { call(o, false) },
		DeleteFunc: func(o any) { call(o, true) },
	}); err != nil {
		return nil, fmt.Errorf("follow %s: %w", what, err)
	}
	done := make(chan struct{})
	stop = sync.OnceFunc(func() { close(done) })
	go routine.Guarded(func() { informer.Run(done) })()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		stop()
		return nil, fmt.Errorf("follow %s: %w", what, context.Cause(ctx))
	}
	return stop, nil
}

// dropManagedFields removes the largest part of a pod that is not used here.
func dropManagedFields(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return o, nil
}

// all are the pods in their last known state, by namespace and name.
func (s *podStore) all() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range s.informer.GetStore().List() {
		if pod, ok := o.(*corev1.Pod); ok && !s.simulated[pod.Spec.NodeName] {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// running are the running containers of a pod, including native sidecars (init containers with restart policy Always)
// and ephemeral containers.
func running(pod *corev1.Pod) []string {
	are := lists.Where(statuses(pod), func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	return lists.Map(are, func(s corev1.ContainerStatus) string { return s.Name })
}

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// slots numbers the pods of each service. A pod that replaces one ended by a fault gets the number of that pod, so
// that "echo-1" names the same replica throughout a trial. The zero value is empty.
type slots struct {
	mu        sync.Mutex
	byService map[string][]*slot
}

// slot is one number of a service.
type slot struct {
	pods []string // names, one for each generation, with the current or last one at the end
	// vacant: a fault ended the last pod, and the next new pod of the service gets the slot.
	vacant bool
	// scaledDown: a fault scaled the service down, and no pod gets the slot before the service is scaled up.
	scaledDown bool
}

// vacate frees the slot of a pod that a fault ends.
func (s *slots) vacate(service, pod string, scaledDown bool) {
	number, _ := s.assign(service, pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	slot.vacant, slot.scaledDown = true, scaledDown
}

// assign returns the number of a pod of a service and its generation, from 1. An unknown pod gets a vacant slot or a
// new one.
func (s *slots) assign(service, pod string) (number, generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, slot := range s.byService[service] {
		if j := slices.Index(slot.pods, pod); j >= 0 {
			return i, j + 1
		}
	}
	for i, slot := range s.byService[service] {
		if slot.vacant && !slot.scaledDown {
			slot.pods, slot.vacant = append(slot.pods, pod), false
			return i, len(slot.pods)
		}
	}
	if s.byService == nil {
		s.byService = map[string][]*slot{}
	}
	s.byService[service] = append(s.byService[service], &slot{pods: []string{pod}})
	return len(s.byService[service]) - 1, 1
}

// reopen lets a pod take a slot that was scaled down. It reports whether the slot was.
func (s *slots) reopen(service string, number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	was := slot.scaledDown
	slot.scaledDown = false
	return was
}

// occupant is the name of the pod in a slot, or "" if the slot is vacant.
func (s *slots) occupant(service string, number int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.byService[service][number]
	if slot.vacant {
		return ""
	}
	return slot.pods[len(slot.pods)-1]
}

func (s *slots) count(service string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byService[service])
}

// find finds a slot by its name, e.g. "echo-1".
func (s *slots) find(name string) (service string, number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for service, all := range s.byService {
		for i := range all {
			if slotName(service, i) == name {
				return service, i, true
			}
		}
	}
	return "", 0, false
}

// slotName names a slot in results and faults.
func slotName(service string, number int) string { return fmt.Sprintf("%s-%d", service, number) }

// Bounds of the logs that are kept.
const (
	logsTimeout   = 20 * time.Second
	maxLog        = 4 << 20 // bytes of each container
	parallelLogs  = 8
	maxListedPods = 500
)

// podRecords keeps the trial's pods, image digests and container logs in the provenance directory.
type podRecords struct {
	*trial
	pods    *trialPods
	archive archive
}

// savePods writes the pods as the cluster has them: with node, image digests and injected containers.
func (r *podRecords) savePods() error {
	if !r.archive.Enabled() {
		return nil
	}
	var b strings.Builder
	for _, pod := range r.pods.all() {
		pod = pod.DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		text, err := yaml.Marshal(pod)
		if err != nil {
			return fmt.Errorf("keep pod %s: %w", pod.Name, err)
		}
		fmt.Fprintf(&b, "---\n# %s\n%s", r.pods.name(pod), text)
	}
	return hint.Prefix(r.archive.Write(podsFile, []byte(b.String())), "keep the pods")
}

// checkDigests refuses an image with another digest than platform.digests requires, and writes all digests.
func (r *podRecords) checkDigests() error {
	images, err := r.digests()
	if err != nil || !r.archive.Enabled() || len(images) == 0 {
		return err
	}
	var b strings.Builder
	b.WriteString("# Image digests of this trial. Copy them to platform.digests to require them in other runs.\n")
	for _, image := range slices.Sorted(maps.Keys(images)) {
		line, err := yaml.Marshal(map[string]string{image: images[image]})
		if err != nil {
			return fmt.Errorf("keep the image digests: %w", err)
		}
		b.Write(line)
	}
	return hint.Prefix(r.archive.Write(imagesFile, []byte(b.String())), "keep the image digests")
}

// digests are the image digests of the trial's pods, including images of a mesh or a chart. A digest that
// platform.digests contradicts is an error.
func (r *podRecords) digests() (map[string]string, error) {
	images := map[string]string{}
	for _, pod := range r.pods.all() {
		names := map[string]string{}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			names[c.Name] = imageName(c.Image)
		}
		for _, s := range statuses(pod) {
			image, digest := names[s.Name], digestOf(s)
			if image == "" || digest == "" {
				continue
			}
			if want := r.options.Digests[image]; want != "" && want != digest {
				return nil, hint.New("the image changed, or the node has another image of this name; if this is intended, update platform.digests",
					"container %s of pod %s has image %s with digest %s, platform.digests requires %s", s.Name, r.pods.name(pod), image, digest, want)
			}
			images[image] = digest
		}
	}
	return images, nil
}

// imageName is an image reference without its digest, the key of platform.digests.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return name
}

// digestOf is the image digest in a container's status, or "".
func digestOf(s corev1.ContainerStatus) string {
	if i := strings.LastIndex(s.ImageID, "sha256:"); i >= 0 {
		return s.ImageID[i:]
	}
	return ""
}

// saveLogs writes the logs of the trial's containers. A log that cannot be read is skipped: removal must go on.
func (r *podRecords) saveLogs(ctx context.Context) {
	if !r.archive.Enabled() || r.cluster.DryRun() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	list, err := r.cluster.Typed().CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{Limit: maxListedPods, LabelSelector: "!" + labelBackground})
	if err != nil {
		return
	}
	var saving errgroup.Group
	saving.SetLimit(parallelLogs)
	for i := range list.Items {
		pod := &list.Items[i]
		if !r.owns(pod) {
			continue
		}
		for _, s := range statuses(pod) {
			if s.State.Waiting == nil || s.RestartCount > 0 {
				file := r.archive.Path(r.pods.name(pod) + "-" + s.Name + ".log")
				saving.Go(routine.Guarded(func() error { r.saveLog(ctx, pod, s, file); return nil }))
			}
		}
	}
	_ = saving.Wait()
}

// saveLog appends a container's log to a file, after the log of its previous instance if it was restarted.
func (r *podRecords) saveLog(ctx context.Context, pod *corev1.Pod, s corev1.ContainerStatus, file string) {
	limit, instances := int64(maxLog), []bool{false}
	if s.RestartCount > 0 {
		instances = []bool{true, false}
	}
	for _, previous := range instances {
		body, err := r.cluster.Typed().CoreV1().Pods(r.namespace).GetLogs(pod.Name,
			&corev1.PodLogOptions{Container: s.Name, Previous: previous, LimitBytes: &limit}).Stream(ctx)
		if err != nil {
			continue
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = io.Copy(f, io.LimitReader(body, maxLog))
			f.Close()
		}
		body.Close()
	}
}

// Files of a trial's provenance directory.
const (
	manifestsFile = "manifests.yaml" // as applied, for kubectl
	podsFile      = "pods.yaml"      // as the cluster has them once they are ready
	imagesFile    = "images.yaml"    // image digests, as platform.digests takes them
	chartFile     = "chart.yaml"     // the rendered chart
	valuesFile    = "chart-values.yaml"
	callsFile     = "calls.yaml" // calls between services, where the file does not declare them
	meshDir       = "mesh"       // directory of the mesh's files
)

// compressAbove is the size above which a file of the mesh is compressed, in bytes. A proxy's configuration has
// megabytes, and every trial has one for each proxy.
const compressAbove = 64 << 10

// archive is the provenance directory of a trial.
type archive struct{ platform.Provenance }

// manifest adds an applied manifest, without the values of a Secret.
func (a archive) manifest(m cluster.Manifest) error {
	text := m.YAML
	if m.Ref.Kind.GroupKind() == cluster.KindSecret.GroupKind() {
		var err error
		if text, err = redactSecret(text); err != nil {
			return err
		}
	}
	return a.Append(manifestsFile, "---\n# %s\n%s", m.Ref, text)
}

// redactSecret is a Secret's manifest with its keys and without their values.
func redactSecret(text []byte) ([]byte, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return nil, err
	}
	return yaml.Marshal(withoutSecrets(o).Object)
}

// meshFile writes one file of the mesh, compressed if it is large.
func (a archive) meshFile(name string, content []byte) error {
	name = meshDir + "/" + name
	if err := os.MkdirAll(filepath.Dir(a.Path(name)), 0o700); err != nil {
		return err
	}
	return a.WriteLarge(name, content, compressAbove)
}

// roleSystem is the role of the cluster's own containers, recognised by their priority.
const roleSystem = "system"

// taskLister lists the running containers of the cluster and attributes them to planes.
type taskLister struct {
	*trial
	pods *trialPods
	load loadSource
	lost *nodeMonitor // nil: all nodes are listed
}

// Tasks implements [platform.Running]: every running container of the cluster, and the load of this machine.
func (l *taskLister) Tasks(ctx context.Context) ([]platform.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !l.pods.followed() {
		return nil, nil
	}
	var tasks []platform.Task
	for _, pod := range l.pods.inCluster() {
		if l.lost.isDown(pod.Spec.NodeName) {
			continue
		}
		name, generation := pod.Namespace+"/"+pod.Name, 1
		if l.owns(pod) {
			name, generation = l.pods.generation(pod)
		} else if l.besideRound(pod) {
			continue
		}
		for _, container := range running(pod) {
			t := mesh.Task{ID: taskID(name+"/"+container, generation), Namespace: pod.Namespace, Pod: pod.Name,
				Service: l.serviceOf(pod), Container: container, Labels: pod.Labels}
			t = l.attribute(t, l.foreignPlane(pod, container), l.owns(pod), cluster.IsSystem(pod))
			if l.ofOthers(pod) && (t.Plane == metric.Unattributed || t.Role == mesh.RoleSidecar || l.mesh != nil && l.mesh.OtherRevision(pod.Labels)) {
				t.Plane, t.Role, t.Component = metric.Foreign, "", ""
			}
			if t.Plane == metric.Unattributed && l.otherMesh(pod) {
				continue
			}
			if agents.Owns(pod, l.options.Run) || l.original(pod) {
				t.Plane, t.Role, t.Component = metric.Harness, "", ""
			}
			if (t.Plane == metric.Platform && ofDaemonSet(pod) || t.Plane == metric.Foreign) && l.options.Interest != nil && !l.options.Interest[pod.Spec.NodeName] {
				continue
			}
			t.Labels = nil // only the attribution rules need them
			tasks = append(tasks, platform.Task{Task: t, Node: pod.Spec.NodeName, Restarted: generation > 1})
		}
	}
	return append(tasks, l.load.tasks()...), nil
}

// besideRound reports whether a pod is of another trial of the same round, which has a record of its own.
func (l *taskLister) besideRound(pod *corev1.Pod) bool {
	return l.spec.Trial.Round > 0 && !agents.Owns(pod, l.options.Run) && strings.HasPrefix(pod.Namespace, namespacePrefix(l.options.Run))
}

// ofOthers reports whether a pod is neither of a run, nor of the cluster, nor in the namespace of a mesh of the run.
func (t *trial) ofOthers(pod *corev1.Pod) bool {
	return !t.owns(pod) && pod.Labels[cluster.LabelRun] == "" && !strings.HasPrefix(pod.Namespace, namespacePrefix(t.options.Run)) &&
		!slices.Contains(t.options.meshNamespaces, pod.Namespace) && !cluster.IsSystem(pod)
}

// otherMesh reports whether a pod is of a mesh that other trials of the same round use.
func (l *taskLister) otherMesh(pod *corev1.Pod) bool {
	return l.spec.Trial.Round > 0 && slices.Contains(l.options.meshNamespaces, pod.Namespace)
}

// original reports whether a pod is of the application that the trial copies. Its work is in no sum of the trial.
func (l *taskLister) original(pod *corev1.Pod) bool {
	return l.spec.Topology.Namespace != "" && !l.options.InPlace && pod.Namespace == l.spec.Topology.Namespace
}

// taskID is the ID of a task in one generation, so that its CPU use is not added to the CPU use of another.
func taskID(id string, generation int) string {
	if generation == 1 {
		return id
	}
	return fmt.Sprintf("%s.%d", id, generation)
}

// foreignPlane is the plane of a container in a pod template of an application that others wrote, or "". A container that
// a variant adds is beside the application.
func (l *taskLister) foreignPlane(pod *corev1.Pod, container string) metric.Plane {
	if l.foreign == nil || !l.owns(pod) {
		return ""
	}
	t, ok := l.foreign.template(pod)
	switch {
	case !ok || !slices.Contains(t.containers, container):
		return ""
	case slices.Contains(t.added, container):
		return metric.Data
	}
	return metric.App
}

// attribute applies the mesh's rules and corrects their result. Containers of others' objects are the application.
// An application or a load of another run is unattributed. A pod with a system priority belongs to the cluster. Other
// containers stay unattributed: they may belong to the mesh.
func (l *taskLister) attribute(t mesh.Task, foreign metric.Plane, own, system bool) mesh.Task {
	t = l.spec.Attribute(t)
	if t.Plane == metric.Unattributed && foreign != "" {
		t.Plane = foreign
	}
	switch {
	case !own && (t.Plane == metric.App || t.Plane == metric.Load):
		t.Plane, t.Role, t.Component = metric.Unattributed, "", ""
	case t.Plane == metric.Unattributed && system:
		t.Plane, t.Role = metric.Platform, roleSystem
	}
	return t
}
