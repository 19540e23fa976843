package tools

import (
	"slices"
	"strings"
	"unicode"
)

// Talk is what code knows of the conversation when it decides whether the user confirmed something.
// What the model says of it does not count.
type Talk struct {
	// Message is the user's message that the run answers.
	Message string
	// Refused are the projects whose deletion was refused in the run before.
	Refused []string
	// Projects are the names of the projects that devices returned in this conversation, by id.
	Projects map[string]string
}

// Confirms reports whether the user confirmed the deletion of that project: they agreed when they were
// asked (the run before was refused it), or their message itself says that they confirm it and names the project.
func (t Talk) Confirms(project string) bool {
	words := t.words()
	if denies(words) || strings.Contains(t.Message, "?") {
		return false
	}
	if slices.Contains(t.Refused, project) {
		return agrees(words)
	}
	if !confirms(words) || !slices.ContainsFunc(words, deletes) {
		return false
	}
	name := t.Projects[project]
	return t.namesID(project) || name != "" && namesIt(words, name)
}

// namesID reports whether the id stands in the message as a word.
func (t Talk) namesID(project string) bool {
	return slices.Contains(strings.FieldsFunc(t.Message, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	}), project)
}

func (t Talk) words() []string { return split(t.Message) }

func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' && r != '’'
	})
}

// namesIt reports whether the words of the name stand together among the words.
func namesIt(words []string, name string) bool {
	wanted := split(name)
	for i := 0; len(wanted) > 0 && i+len(wanted) <= len(words); i++ {
		if slices.Equal(words[i:i+len(wanted)], wanted) {
			return true
		}
	}
	return false
}

func denies(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		switch w {
		case "no", "not", "don't", "don’t", "dont", "never", "stop", "cancel", "keep", "wait", "nein", "nicht", "instead", "archive":
			return true
		}
		return false
	})
}

// agrees reports whether the words are an answer to "shall it be deleted?": they say so, or they are
// nothing but agreement. "Ok, show me my notes" is none.
func agrees(words []string) bool {
	if slices.ContainsFunc(words, another) {
		return false
	}
	if slices.ContainsFunc(words, deletes) || slices.Contains(words, "confirm") || slices.Contains(words, "confirmed") {
		return true
	}
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !affirms(w) })
}

func another(word string) bool {
	switch strings.TrimSuffix(word, "s") {
	case "task", "note", "checkpoint", "milestone", "comment":
		return true
	}
	return false
}

func affirms(word string) bool {
	switch word {
	case "yes", "yep", "yeah", "ok", "okay", "sure", "please", "do", "it", "that", "go", "ahead", "i", "i'm", "i’m", "am",
		"really", "definitely", "absolutely", "now", "the", "project", "ja", "bitte":
		return true
	}
	return false
}

func confirms(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		switch w {
		case "confirm", "confirmed", "yes", "really", "definitely", "permanently", "sure":
			return true
		}
		return false
	})
}

func deletes(word string) bool {
	switch word {
	case "delete", "deleted", "deleting", "deletion", "remove", "removing", "erase":
		return true
	}
	return false
}
