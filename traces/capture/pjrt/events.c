/* Errors and events: ours, told from libtpu's by their first word, for its own functions make none before PJRT 0.80 (libtpu 0.0.24). */
#include "plugin.h"

#include <string.h>

static const char ours;

struct PJRT_Error {
    const char *mark; /* &ours */
    PJRT_Code code;
    char *text;
};
/* All of ours are over, without an error. */
struct PJRT_Event {
    const char *mark;
};
static PJRT_Event over = {&ours};

PJRT_Error *tpu_error(PJRT_Code code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    PJRT_Error *error = g_new(PJRT_Error, 1);
    *error = (PJRT_Error){&ours, code, g_strdup_vprintf(format, list)};
    va_end(list);
    return error;
}

char *tpu_error_text(const PJRT_Error *error)
{
    PJRT_Error_Message_Args message = {.struct_size = sizeof message, .error = error};
    tpu_Error_Message(&message);
    return g_strndup(message.message, message.message_size);
}

char *tpu_failed(PJRT_Function function, void *args)
{
    PJRT_Error *error = function(args);
    if (!error)
        return NULL;
    char *text = tpu_error_text(error);
    PJRT_Error_Destroy_Args gone = {.struct_size = sizeof gone, .error = error};
    tpu_Error_Destroy(&gone);
    return text;
}

PJRT_Event *tpu_over(void)
{
    return &over;
}

PJRT_Error *tpu_Error_Destroy(PJRT_Error_Destroy_Args *args)
{
    if (!args->error || args->error->mark != &ours)
        return tpu_real->Error_Destroy(args);
    g_free(args->error->text);
    g_free(args->error);
    return NULL;
}

PJRT_Error *tpu_Error_Message(PJRT_Error_Message_Args *args)
{
    if (args->error->mark != &ours)
        return tpu_real->Error_Message(args);
    args->message = args->error->text;
    args->message_size = strlen(args->error->text);
    return NULL;
}

PJRT_Error *tpu_Error_GetCode(PJRT_Error_GetCode_Args *args)
{
    if (args->error->mark != &ours)
        return tpu_real->Error_GetCode(args);
    args->code = args->error->code;
    return NULL;
}

PJRT_Error *tpu_Error_ForEachPayload(PJRT_Error_ForEachPayload_Args *args)
{
    return args->error->mark != &ours ? tpu_real->Error_ForEachPayload(args) : NULL;
}

PJRT_Error *tpu_Event_Destroy(PJRT_Event_Destroy_Args *args)
{
    return args->event->mark != &ours ? tpu_real->Event_Destroy(args) : NULL;
}

PJRT_Error *tpu_Event_IsReady(PJRT_Event_IsReady_Args *args)
{
    if (args->event->mark != &ours)
        return tpu_real->Event_IsReady(args);
    args->is_ready = true;
    return NULL;
}

PJRT_Error *tpu_Event_Error(PJRT_Event_Error_Args *args)
{
    return args->event->mark != &ours ? tpu_real->Event_Error(args) : NULL;
}

PJRT_Error *tpu_Event_Await(PJRT_Event_Await_Args *args)
{
    return args->event->mark != &ours ? tpu_real->Event_Await(args) : NULL;
}

PJRT_Error *tpu_Event_OnReady(PJRT_Event_OnReady_Args *args)
{
    if (args->event->mark != &ours)
        return tpu_real->Event_OnReady(args);
    args->callback(NULL, args->user_arg);
    return NULL;
}
