package rpc

import (
	"errors"
	"io"
	"slices"
)

// File is the description of a service for reflection: a FileDescriptorProto
// (google/protobuf/descriptor.proto).
type File struct {
	Name, Package string
	Messages      []Type
	Service       string
	Methods       []MethodType
}

// Type is a message, with at most one enum in it. The values of the enum count from 0.
type Type struct {
	Name   string
	Fields []FieldType
	Enum   string
	Values []string
}

// FieldType is a field that is neither repeated nor in a oneof.
type FieldType struct {
	Name   string
	Number int
	Kind   Kind
	Of     string // full name of an enum, after a dot
}

// Kind is the type of a field (FieldDescriptorProto.Type).
type Kind uint64

// The kinds that tare's services use.
const (
	Int64  Kind = 3
	String Kind = 9
	Bytes  Kind = 12
	Uint32 Kind = 13
	Enum   Kind = 14
)

// MethodType is a method. Request and Response are messages of the same file.
type MethodType struct {
	Name, Request, Response string
	Streams                 bool // the server sends several messages
}

// optional is FieldDescriptorProto.LABEL_OPTIONAL.
const optional = 1

// reflectionNames are the versions of the service (grpc/reflection/v1/reflection.proto). Their messages are equal.
var reflectionNames = []string{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

type reflection struct {
	services []string
	files    map[string][]byte // by file name
	symbols  map[string][]byte // by full name
}

func newReflection(files []File) *reflection {
	r := &reflection{services: slices.Clone(reflectionNames), files: map[string][]byte{}, symbols: map[string][]byte{}}
	for _, f := range files {
		b := f.encode()
		r.services = append(r.services, f.serviceName())
		r.files[f.Name] = b
		for _, name := range f.symbols() {
			r.symbols[name] = b
		}
	}
	slices.Sort(r.services)
	return r
}

// encode returns the FileDescriptorProto.
func (f File) encode() []byte {
	m := Append(nil, 1, []byte(f.Name))
	m = Append(m, 2, []byte(f.Package))
	for _, t := range f.Messages {
		m = Append(m, 4, t.encode())
	}
	service := Append(nil, 1, []byte(f.Service))
	for _, t := range f.Methods {
		method := Append(nil, 1, []byte(t.Name))
		method = Append(method, 2, []byte("."+f.Package+"."+t.Request))
		method = Append(method, 3, []byte("."+f.Package+"."+t.Response))
		if t.Streams {
			method = AppendInt(method, 6, 1)
		}
		service = Append(service, 2, method)
	}
	m = Append(m, 6, service)
	return Append(m, 12, []byte("proto3"))
}

func (t Type) encode() []byte {
	m := Append(nil, 1, []byte(t.Name))
	for _, f := range t.Fields {
		field := Append(nil, 1, []byte(f.Name))
		field = AppendInt(field, 3, uint64(f.Number))
		field = AppendInt(field, 4, optional)
		field = AppendInt(field, 5, uint64(f.Kind))
		if f.Of != "" {
			field = Append(field, 6, []byte(f.Of))
		}
		m = Append(m, 2, Append(field, 10, []byte(f.Name)))
	}
	if t.Enum == "" {
		return m
	}
	enum := Append(nil, 1, []byte(t.Enum))
	for i, name := range t.Values {
		value := Append(nil, 1, []byte(name))
		enum = Append(enum, 2, append(value, 2<<3|wireVarint, byte(i))) // proto2: a zero is written
	}
	return Append(m, 4, enum)
}

// serve answers requests until the client ends the call.
func (r *reflection) serve(s *Stream) error {
	for {
		request, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := r.answer(request)
		if err != nil {
			return err
		}
		if err := s.send(Message{answer}); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

// Fields of ServerReflectionRequest and ServerReflectionResponse.
const (
	askHost, askFile, askSymbol, askExtension, askExtensions, askServices = 1, 3, 4, 5, 6, 7
	giveHost, giveRequest, giveFile, giveServices, giveError              = 1, 2, 4, 6, 7
)

// answer returns the ServerReflectionResponse to a request.
func (r *reflection) answer(request []byte) ([]byte, error) {
	fields, err := Fields(request)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, f := range fields {
		if f.Number == askHost && len(f.Bytes) > 0 {
			out = Append(out, giveHost, f.Bytes)
		}
	}
	out = Append(out, giveRequest, request)
	for _, f := range slices.Backward(fields) { // of a oneof, the last counts
		switch f.Number {
		case askFile:
			return append(out, found(r.files, f.Bytes)...), nil
		case askSymbol:
			return append(out, found(r.symbols, f.Bytes)...), nil
		case askExtension, askExtensions:
			return append(out, reflectionError(NotFound, "there are no extensions")...), nil
		case askServices:
			var list []byte
			for _, name := range r.services {
				list = Append(list, 1, Append(nil, 1, []byte(name)))
			}
			return Append(out, giveServices, list), nil
		}
	}
	return nil, Errorf(InvalidArgument, "the request has no message_request")
}

// symbols lists the full names of the file's service, methods and messages.
func (f File) symbols() []string {
	all := []string{f.serviceName()}
	for _, m := range f.Methods {
		all = append(all, f.serviceName()+"."+m.Name)
	}
	for _, t := range f.Messages {
		all = append(all, f.Package+"."+t.Name)
		if t.Enum != "" {
			all = append(all, f.Package+"."+t.Name+"."+t.Enum)
		}
	}
	return all
}

func (f File) serviceName() string { return f.Package + "." + f.Service }

func found(in map[string][]byte, name []byte) []byte {
	b, ok := in[string(name)]
	if !ok {
		return reflectionError(NotFound, "not found: "+string(name[:min(len(name), 80)]))
	}
	return Append(nil, giveFile, Append(nil, 1, b))
}

func reflectionError(code Code, message string) []byte {
	return Append(nil, giveError, Append(AppendInt(nil, 1, uint64(code)), 2, []byte(message)))
}
