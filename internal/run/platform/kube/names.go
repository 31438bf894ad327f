package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tare-mesh/tare/internal/run/platform"
)

// Labels of what belongs to a trial, beside those every object of tare's carries.
const (
	labelTrial   = "tare.dev/trial"
	labelService = "tare.dev/service"
	labelApp     = "app" // what meshes, dashboards and people go by
)

// Ports of the containers.
const (
	servicePort = 8080
	adminPort   = 9090
	workerPort  = 9095
)

// Names of containers, and of objects that every namespace has one of.
const (
	appContainer   = "app"
	adderContainer = "adder"
	loadContainer  = "load"
	tokenName      = "tare-token"
	tokenKey       = "token"
	configKey      = "service.json"
)

// clusterDomain is where the names of services end.
const clusterDomain = "svc.cluster.local"

// Bounds of a namespace's name (a DNS label), and of the part of it that is taken from a run's name.
const (
	maxLabel   = 63
	maxRunName = 24
)

// RunID makes a run's label of its name and of what tells it from every other run (its results directory): the
// same whenever the run is resumed.
func RunID(name, distinct string) string {
	sum := sha256.Sum256([]byte(distinct))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	name = strings.Trim(name[:min(len(name), maxRunName)], "-")
	if name == "" {
		name = "run"
	}
	return name + "-" + hex.EncodeToString(sum[:4])
}

// namespaceOf is the namespace of one trial.
func namespaceOf(run string, spec platform.Spec) string {
	name := fmt.Sprintf("tare-%s-%d", run, spec.Trial.Ordinal)
	return strings.Trim(name[:min(len(name), maxLabel)], "-")
}
