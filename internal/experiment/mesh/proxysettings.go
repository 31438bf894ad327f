package mesh

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// ProxySettings are a user's settings of the sidecars on Kubernetes. Zero fields change nothing.
type ProxySettings struct {
	Image       string
	Concurrency int // worker threads
	Environment map[string]string
	// Requests and Limits are quantities as Kubernetes writes them, by resource: cpu, memory.
	Requests, Limits map[string]string
}

// ProxyValues are the places of settings of the sidecars in the values of a chart.
type ProxyValues struct {
	Release string `yaml:"release" json:"release"`
	// Paths of the values, such as global.proxy.image, by setting: image, concurrency, environment, requests.cpu,
	// requests.memory, limits.cpu, limits.memory.
	Paths map[string]string `yaml:"paths" json:"paths"`
	// Annotations of a pod for its own sidecar, by name: texts with settings, such as ${requests.cpu}. A text whose
	// setting is absent is left out.
	Annotations map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// setting is one in the text of an annotation.
var setting = regexp.MustCompile(`\$\{[^}]*\}`)

var proxySettings = []string{"image", "concurrency", "environment", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}

// Any reports whether anything is set.
func (p ProxySettings) Any() bool { return len(p.set()) > 0 }

// check refuses settings that have no place in the charts. The error has a hint.
func (v ProxyValues) check(p ProxySettings) error {
	if err := checkProcess(p.Concurrency, p.Environment); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.set())) {
		if v.Paths[name] != "" {
			continue
		}
		advice := "write options or values"
		if len(v.Paths) > 0 {
			advice = "it has " + strings.Join(slices.Sorted(maps.Keys(v.Paths)), ", ") + "; or " + advice
		}
		return hint.New(advice, "the mesh has no setting %s of its sidecars on kubernetes", name)
	}
	return nil
}

// Values are the values of the chart of Release with those settings that have a place there.
func (v ProxyValues) Values(p ProxySettings) map[string]any {
	all := map[string]any{}
	for name, value := range p.set() {
		if v.Paths[name] == "" {
			continue
		}
		manifest.Overlay(all, manifest.Nested(v.Paths[name], value))
	}
	return all
}

// PodAnnotations are the annotations of a pod that give its sidecar the settings.
func (v ProxyValues) PodAnnotations(p ProxySettings) map[string]string {
	all, set := map[string]string{}, p.set()
	for name, text := range v.Annotations {
		complete := true
		text = setting.ReplaceAllStringFunc(text, func(of string) string {
			value, ok := set[strings.Trim(of, "${}")]
			complete = complete && ok
			return fmt.Sprint(value)
		})
		if complete {
			all[name] = text
		}
	}
	return all
}

// set are the settings that are not zero, by name.
func (p ProxySettings) set() map[string]any {
	all := map[string]any{}
	if p.Image != "" {
		all["image"] = p.Image
	}
	if p.Concurrency != 0 {
		all["concurrency"] = p.Concurrency
	}
	if len(p.Environment) > 0 {
		environment := map[string]any{}
		for name, value := range p.Environment {
			environment[name] = value
		}
		all["environment"] = environment
	}
	for kind, amounts := range map[string]map[string]string{"requests": p.Requests, "limits": p.Limits} {
		for resource, quantity := range amounts {
			all[kind+"."+resource] = quantity
		}
	}
	return all
}

// proxyValues checks the places of the sidecars' settings.
func (v *validation) proxyValues(k Kubernetes) {
	const at = "kubernetes.proxyValues"
	if len(k.ProxyValues.Paths) == 0 && k.ProxyValues.Release == "" {
		return
	}
	v.release(at+".release", k.ProxyValues.Release)
	for _, name := range slices.Sorted(maps.Keys(k.ProxyValues.Annotations)) {
		for _, of := range setting.FindAllString(k.ProxyValues.Annotations[name], -1) {
			if !slices.Contains(proxySettings, strings.Trim(of, "${}")) {
				v.report(at+".annotations."+name, fmt.Sprintf("found %q, which is not a setting", of), "write one of "+strings.Join(proxySettings, ", "))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.ProxyValues.Paths)) {
		path := at + ".paths." + name
		v.oneOf(path, name, proxySettings...)
		if slices.Contains(strings.Split(k.ProxyValues.Paths[name], "."), "") {
			v.report(path, fmt.Sprintf("found %q, expected keys with dots between them", k.ProxyValues.Paths[name]), "")
		}
	}
}
