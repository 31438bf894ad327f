package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Background is what a control plane knows and does besides: services that no request calls, changes of their endpoints, simulated
// proxies, and pods of simulated nodes. Each is a factor if it has several levels.
type Background struct {
	Services int       `yaml:"services,omitempty" json:"services,omitempty"`
	Changes  PerSecond `yaml:"changes,omitempty" json:"changes,omitempty"` // of endpoints of all services together
	Proxies  int       `yaml:"proxies,omitempty" json:"proxies,omitempty"` // that are simulated
	Pods     int       `yaml:"pods,omitempty" json:"pods,omitempty"`       // of all services together, on simulated nodes
}

// Bounds of a background.
const (
	maxBackgroundServices = 10000
	maxBackgroundPods     = 10000
	maxBackgroundChanges  = PerSecond(1000)
)

// PerSecond is a number of events per second, written as "2/s" or 2.
type PerSecond float64

// String is the number with its unit.
func (p PerSecond) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "/s" }

// Wants describes the text for messages.
func (PerSecond) Wants() string { return "a number per second such as 2/s" }

// UnmarshalScalar reads a number per second.
func (p *PerSecond) UnmarshalScalar(text string) error {
	number, _ := strings.CutSuffix(strings.TrimSpace(text), "/s")
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, p.Wants())
	}
	*p = PerSecond(f)
	return nil
}

// MarshalYAML writes the number with its unit.
func (p PerSecond) MarshalYAML() (any, error) { return p.String(), nil }

// backgroundLevels are all levels of the parts of a background that treatments have.
type backgroundLevels struct {
	services, proxies, pods []int
	changes                 []PerSecond
}

func backgroundOf(e *Experiment) backgroundLevels {
	return backgroundLevels{services: levelsOr(e, BackgroundServicesFactor, e.Background.Services), proxies: levelsOr(e, BackgroundProxiesFactor, e.Background.Proxies),
		pods: levelsOr(e, BackgroundPodsFactor, e.Background.Pods), changes: levelsOr(e, BackgroundChangesFactor, e.Background.Changes)}
}

// MaxBackgroundPods returns the largest number of background pods of a treatment.
func MaxBackgroundPods(e *Experiment) int { return slices.Max(backgroundOf(e).pods) }

// levelsOr returns the levels of a factor, or the only one if it is not a factor.
func levelsOr[T any](e *Experiment, factor string, only T) []T {
	if levels := LevelsOf[T](e.Factors, factor); len(levels) > 0 {
		return levels
	}
	return []T{only}
}

// CheckBackground returns an error with a hint if a mesh cannot have the background of an experiment. Without a mesh there is
// nothing that would know it. A cluster has services with every mesh.
func CheckBackground(e *Experiment, meshes []mesh.Definition) error {
	var failed []error
	for _, m := range meshes {
		if part, err := lacking(e, m); err != nil {
			failed = append(failed, fmt.Errorf("background.%s: %w", part, err))
		}
	}
	return hint.Wrap(errors.Join(failed...), havingBackground(e))
}

// lacking returns the part of the background that a mesh cannot have, and the reason.
func lacking(e *Experiment, m mesh.Definition) (part string, err error) {
	levels := backgroundOf(e)
	part, on := "services", mesh.OnLocal
	if e.onCluster() {
		on = mesh.OnKubernetes
	}
	switch {
	case slices.Max(levels.services) == 0:
	case on == mesh.OnLocal && m.Local != nil && m.Local.Background == nil:
		err = fmt.Errorf("%w: its definition has no requests in local.background", errors.ErrUnsupported)
	case slices.Max(levels.proxies) > 0:
		part, err = "proxies", m.CanSimulate(on)
	}
	if err != nil {
		err = fmt.Errorf("mesh %s has none: %w", m.Name, err)
	}
	return part, err
}

// havingBackground is a hint: a mesh of tare's that has all of it.
func havingBackground(e *Experiment) string {
	if e.onCluster() {
		return "of tare's meshes istio has it"
	}
	return "of tare's meshes envoy-xds has it"
}

func changesBehind(e *Experiment) bool {
	return slices.Max(backgroundOf(e).changes) > 0
}

// String is the background in a line, "" for none.
func (b Background) String() string {
	if b.Services == 0 {
		return ""
	}
	line := fmt.Sprintf("Background: %d services that no request calls", b.Services)
	if b.Pods > 0 {
		line += fmt.Sprintf(", of %d pods on simulated nodes", b.Pods)
	}
	if b.Proxies > 0 {
		line += fmt.Sprintf(", %d simulated proxies", b.Proxies)
	}
	if b.Changes > 0 {
		line += fmt.Sprintf(", and %s changes of them", b.Changes)
	}
	return line
}

type backgroundRules struct{ validation }

func (v backgroundRules) validate() {
	if !v.doc.Sound("background") || !v.doc.Sound("factors") {
		return
	}
	levels := backgroundOf(v.e)
	services, changes, proxies := levels.services, levels.changes, levels.proxies
	for _, f := range []struct{ field, factor string }{
		{"background.services", BackgroundServicesFactor}, {"background.changes", BackgroundChangesFactor}, {"background.proxies", BackgroundProxiesFactor},
		{"background.pods", BackgroundPodsFactor},
	} {
		if v.doc.Has(f.field) && v.doc.Has("factors."+f.factor) {
			v.report(f.field, "remove one of the two", "factors.%s has it already", f.factor)
		}
	}
	if slices.Max(changes) > 0 && slices.Min(services) == 0 {
		v.report(v.place("changes", BackgroundChangesFactor), "write services: 100 beside it, without a level 0", "there are no background services to change")
	}
	if slices.Max(proxies) > 0 && slices.Min(services) == 0 {
		v.report(v.place("proxies", BackgroundProxiesFactor), "write services: 100 beside it, without a level 0", "there are no background services that proxies could learn")
	}
	if most := float64(slices.Max(changes)) * time.Duration(v.e.Phases.Measure).Seconds(); most > mesh.MaxBackgroundChange {
		v.report(v.place("changes", BackgroundChangesFactor), "lower their rate, or shorten phases.measure", "%.0f changes in a trial are more than %d", most, mesh.MaxBackgroundChange)
	}
	v.pods(levels)
	v.known()
	if slices.Max(services) == 0 || v.e.Platform.Kind == mesh.OnLocal {
		return
	}
	at := v.place("services", BackgroundServicesFactor)
	switch {
	case !v.e.onCluster():
		v.report(at, "remove it, or write platform: {kind: local}", "platform %s has no background services", v.e.Platform.Kind)
	case v.e.Platform.Namespace != "":
		v.report("platform.namespace", "remove it, or background.services", "background services are in a namespace of each trial, and %s is an existing one", clip(v.e.Platform.Namespace))
	case v.e.Application.InPlace:
		v.report(at, "remove it, or measure a copy", "background services are in a namespace of each trial, and an application in place has its own")
	}
}

// pods checks the pods of background services.
func (v backgroundRules) pods(levels backgroundLevels) {
	at, least := v.place("pods", BackgroundPodsFactor), 0
	for _, n := range levels.pods {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	switch most := slices.Max(levels.services); {
	case least == 0:
	case !v.e.onCluster():
		v.report(at, "remove it, or write platform: {kind: kubernetes}", "platform %s has no pods", v.e.Platform.Kind)
	case slices.Min(levels.services) == 0:
		v.report(at, "write services: 100 beside it, without a level 0", "there are no background services that pods could have")
	case least < most:
		v.report(at, fmt.Sprintf("write %d or more, or fewer services", most), "%d background services cannot share %d pods", most, least)
	}
}

// known reports meshes that cannot have the background, if their definitions are known.
func (v backgroundRules) known() {
	factors := map[string]string{"services": BackgroundServicesFactor, "proxies": BackgroundProxiesFactor}
	for _, name := range meshesOf(v.e) {
		if d, known := v.definition(name); known {
			if part, err := lacking(v.e, d); err != nil {
				v.report(v.place(part, factors[part]), havingBackground(v.e), "%v", err)
			}
		}
	}
}

// place is where the file has a part of the background.
func (v backgroundRules) place(field, factor string) string {
	if at := "factors." + factor; v.doc.Has(at) {
		return at
	}
	return "background." + field
}

func backgroundRows() []fieldRow {
	return []fieldRow{
		{"background", "What a control plane knows and does besides. Without a mesh it has no effect on this machine; on a cluster Kubernetes knows it.", nil, nil},
		{"background.services", "Services of one endpoint that no request calls, in the configuration of each proxy. On a cluster: Services in the trial's namespace, without a selector unless there are pods. As a factor: backgroundServices.", 0, between(0, maxBackgroundServices, "")},
		{"background.changes", "Changes of their endpoints during the measure phase, at random instants: 2/s. As a factor: backgroundChanges.", 0, between(0, maxBackgroundChanges, "")},
		{"background.proxies", "Simulated proxies: clients of the control plane (delta xDS) that subscribe and acknowledge as sidecars do, without a proxy. On a cluster: in a pod of the trial's namespace. As a factor: backgroundProxies.", 0, between(0, mesh.MaxBackgroundProxies, "")},
		{"background.pods", "Pods of these services, spread evenly, on nodes of KWOK (label type: kwok). No program runs in them. Kubernetes. As a factor: backgroundPods.", 0, between(0, maxBackgroundPods, "")},
	}
}
