package kube

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// Labels of a trial's objects, beside the labels of every object of tare.
const (
	labelTrial   = "tare.dev/trial"
	labelService = "tare.dev/service"
	// labelBackground is the background service of a pod on a simulated node.
	labelBackground = "tare.dev/background"
	labelApp        = "app" // the common label of meshes and dashboards
)

// Ports of the containers.
const (
	servicePort = 8080
	adminPort   = 9090
	workerPort  = 9095
)

// Names of containers, and of objects that exist once in a namespace.
const (
	appContainer  = "app"
	loadContainer = "load"
	tokenName     = "tare-token"
	tokenKey      = "token"
	configKey     = "service.json"
)

// serviceSuffix ends the DNS names of Services. The search list of pods adds the cluster's domain, whatever it is.
const serviceSuffix = "svc"

// Length limits of a namespace's name, which is a DNS label, and of the run's name in it.
const (
	maxLabel   = 63
	maxRunName = 24
)

// RunID makes a run's label from its name and its results directory. It is the same when the run is resumed.
func RunID(name, directory string) string {
	sum := sha256.Sum256([]byte(directory))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	name = cmp.Or(strings.Trim(name[:min(len(name), maxRunName)], "-"), "run")
	return name + "-" + hex.EncodeToString(sum[:4])
}

func namespaceOf(run string, spec platform.Spec) string {
	name := namespacePrefix(run) + fmt.Sprint(spec.Trial.Ordinal)
	return strings.Trim(name[:min(len(name), maxLabel)], "-")
}

// namespacePrefix begins the names of the namespaces of a run's trials.
func namespacePrefix(run string) string { return "tare-" + run + "-" }
