// Package describe finds the description of gRPC methods, by reflection or in files, and encodes
// JSON as their messages. It has the protobuf libraries, so only tare-kube links it.
package describe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// source finds descriptions of services.
type source interface {
	// services lists the full names of all services.
	services() ([]string, error)
	// service finds a service by its full name. The error wraps errNotFound if there is none.
	service(name string) (protoreflect.ServiceDescriptor, error)
	// types finds messages by name, for google.protobuf.Any in JSON.
	types() *dynamicpb.Types
}

// errNotFound is the error of an unknown name.
var errNotFound = errors.New("not found")

// Answer answers a query of tare.
func Answer(ctx context.Context, q load.GRPCQuery) (load.GRPCReply, error) {
	limit := q.Profile.Timeout
	if limit <= 0 {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	from, end, err := open(ctx, &q)
	if err != nil {
		return load.GRPCReply{}, err
	}
	defer end()
	service, name, _ := strings.Cut(strings.Trim(q.Method, "/"), "/")
	if service == "" {
		return listAll(from)
	}
	s, err := findService(from, service)
	if err != nil {
		return load.GRPCReply{}, err
	}
	if name == "" {
		return load.GRPCReply{Methods: methodsOf(s, true)}, nil
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return load.GRPCReply{}, hint.New("methods: "+strings.Join(methodNames(s), ", "), "service %s has no method %.80s", service, name)
	}
	messages, err := encode(m, q.Data, q.Source, from.types())
	return load.GRPCReply{Methods: []load.GRPCMethod{describe(m, true)}, Messages: messages}, err
}

// open opens the source of a query. end frees it.
func open(ctx context.Context, q *load.GRPCQuery) (from source, end func(), err error) {
	end = func() {}
	switch {
	case len(q.Protos) > 0:
		from, err = compile(ctx, q.Protos, q.ImportPaths)
	default:
		from, end, err = reflectOn(ctx, &q.Profile)
	}
	return from, end, err
}

func findService(from source, name string) (protoreflect.ServiceDescriptor, error) {
	s, err := from.service(name)
	if !errors.Is(err, errNotFound) {
		return s, err
	}
	known, errList := from.services()
	if errList != nil {
		return nil, err
	}
	return nil, hint.New("services: "+strings.Join(known, ", "), "service %.80s is unknown", name)
}

// listAll lists the methods of all services. Of a service whose description is incomplete, only the name is known.
func listAll(from source) (load.GRPCReply, error) {
	names, err := from.services()
	if err != nil {
		return load.GRPCReply{}, err
	}
	slices.Sort(names)
	var r load.GRPCReply
	for _, name := range names {
		s, err := from.service(name)
		if err != nil {
			r.Methods = append(r.Methods, load.GRPCMethod{Service: name})
			continue
		}
		r.Methods = append(r.Methods, methodsOf(s, false)...)
	}
	return r, nil
}

func methodNames(s protoreflect.ServiceDescriptor) []string {
	return printable.Texts(methodsOf(s, false), func(m load.GRPCMethod) string { return m.Name })
}

func methodsOf(s protoreflect.ServiceDescriptor, examples bool) []load.GRPCMethod {
	var all []load.GRPCMethod
	for i := range s.Methods().Len() {
		all = append(all, describe(s.Methods().Get(i), examples))
	}
	return all
}

func describe(m protoreflect.MethodDescriptor, example bool) load.GRPCMethod {
	d := load.GRPCMethod{
		Service: string(m.Parent().FullName()), Name: string(m.Name()), Request: string(m.Input().FullName()), Response: string(m.Output().FullName()),
		ClientStreams: m.IsStreamingClient(), ServerStreams: m.IsStreamingServer(),
	}
	if example {
		d.Example = template(m.Input())
	}
	return d
}

// template is a message in JSON with every field at its default, "" if it has none.
func template(m protoreflect.MessageDescriptor) string {
	b, err := protojson.MarshalOptions{EmitUnpopulated: true, AllowPartial: true}.Marshal(dynamicpb.NewMessage(m))
	if err != nil {
		return ""
	}
	var compact bytes.Buffer
	if json.Compact(&compact, b) != nil { // protojson varies its spaces
		return ""
	}
	return compact.String()
}

// files is a source with all descriptions in memory.
type files struct {
	all interface {
		FindDescriptorByName(protoreflect.FullName) (protoreflect.Descriptor, error)
		RangeFiles(func(protoreflect.FileDescriptor) bool)
	}
	resolver *dynamicpb.Types
}

func (f *files) services() (names []string, err error) {
	f.all.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			names = append(names, string(file.Services().Get(i).FullName()))
		}
		return true
	})
	return names, nil
}

func (f *files) service(name string) (protoreflect.ServiceDescriptor, error) {
	d, err := f.all.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("service %.80s: %w", name, errNotFound)
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%.80s is not a service: %w", name, errNotFound)
	}
	return s, nil
}

func (f *files) types() *dynamicpb.Types { return f.resolver }

// filesOf makes a source of descriptions. Imports that are absent stay unresolved.
func filesOf(set *descriptorpb.FileDescriptorSet) (*files, error) {
	all, err := protodesc.FileOptions{AllowUnresolvable: true}.NewFiles(set)
	if err != nil {
		return nil, err
	}
	return &files{all: all, resolver: dynamicpb.NewTypes(all)}, nil
}
