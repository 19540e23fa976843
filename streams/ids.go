package streams

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/cairnhq/cairn/domain"
)

var space = uuid.MustParse("8c4cf8e4-4d7b-5f0e-9a53-1f0d6b7d2c11")

// CommandID is UUIDv5(scope, request id): the same request has the same id wherever it arrives. It is for
// ids that a client chose.
func CommandID(scope domain.Scope, request string) string {
	return uuid.NewSHA1(uuid.NewSHA1(space, []byte(scope)), []byte(request)).String()
}

// OwnID is the id of a command that the product itself gives, by a name of its own. Names and the request
// ids of clients never meet: an id that a client has used is refused for every other command.
func OwnID(scope domain.Scope, name string) string {
	own := uuid.NewSHA1(space, []byte("own")) // no scope's name
	return uuid.NewSHA1(uuid.NewSHA1(own, []byte(scope)), []byte(name)).String()
}

// EventID is UUIDv5(command id, index).
func EventID(command string, index int) string {
	return Derive(command, strconv.Itoa(index))
}

// Derive is UUIDv5(id, name), for ids that follow from another. An id that is no UUID is hashed first.
func Derive(id, name string) string {
	parent, err := uuid.Parse(id)
	if err != nil {
		parent = uuid.NewSHA1(space, []byte(id))
	}
	return uuid.NewSHA1(parent, []byte(name)).String()
}
