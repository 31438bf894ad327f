package result

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// refuseWords returns an error if a known secret is a part of a word that records need, such as the name of a field or of a
// treatment: the record would not have it any more. The error has neither the value nor the word.
func (d opening) refuseWords() error {
	if !secret.Any() || !slices.ContainsFunc(words(&d.dir.plan), func(word string) bool { return secret.In([]byte(word)) }) {
		return nil
	}
	return &Error{Op: "write to results directory", Path: d.dir.path, Hinted: hint.Hinted{
		Err:  errors.New("the value of a ${env:NAME} or ${file:PATH} of a header is a word of results, such as the name of a field or of a treatment"),
		Text: "use another value: results have " + secret.Mark + " in its place, wherever it is"}}
}

// words are the names of fields, and the values by which readers distinguish treatments, tasks, counters, phases and events.
func words(p *plan.Plan) []string {
	all := []string{KindRun, KindTimes, KindTrial, KindPhase, KindProgress, KindSample, KindSearch, KindFault, KindChange, KindError, KindInvalid, KindLog, KindDone, KindEnd,
		mesh.RoleSidecar, mesh.RoleWaypoint, mesh.RoleGateway, mesh.RoleNodeProxy, mesh.RoleDaemon, RoleRemainder, RoleNamespace, balance.LoadName,
		"deploy", "verify", "settle", "search", "warm-up", "measure", "drain", "open", loopClosed, "paced", "constant", "poisson", "replay"}
	for _, class := range []load.Class{load.OK, load.Status, load.Timeout, load.Conn} {
		all = append(all, load.TagResponse+string(class), load.TagService+string(class))
	}
	for _, p := range metric.Planes() {
		all = append(all, string(p))
	}
	for _, p := range []balance.Point{balance.Sent, balance.OutReceived, balance.OutSent, balance.InReceived, balance.InSent, balance.Served, balance.Waypoint, balance.NodeOut, balance.NodeIn, balance.Gateway} {
		all = append(all, string(p))
	}
	for _, u := range []balance.Unit{balance.Requests, balance.Connections, balance.Handshakes} {
		all = append(all, string(u))
	}
	for _, t := range p.Treatments {
		all = append(all, t.ID)
		for name, level := range t.Factors {
			all = append(all, name, fmt.Sprint(level))
		}
	}
	for _, t := range p.Trials {
		all = append(all, t.ID)
	}
	seen := map[reflect.Type]bool{}
	for _, v := range []any{Record{}, Event{}, Environment{}, Manifest{}, Stopped{}, plan.Plan{}} {
		all = append(all, fieldNames(reflect.TypeOf(v), seen)...)
	}
	return all
}

// fieldNames are the names in JSON of the fields of a type and of the types in it.
func fieldNames(t reflect.Type, seen map[reflect.Type]bool) (all []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return fieldNames(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	if seen[t] {
		return nil
	}
	seen[t] = true
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, name)
		}
		all = append(all, fieldNames(f.Type, seen)...)
	}
	return all
}
