/* A library to load and unload: two of them differ in their name, a number and their build-id only. */
int gp_unloaded_function(int number);
void gp_unloaded_call(void (*callback)(void *arg), void *arg);

int gp_unloaded_function(int number)
{
  return number + GP_UNLOADED_NUMBER;
}

void gp_unloaded_call(void (*callback)(void *arg), void *arg)
{
  callback(arg);
  __asm__ volatile("" ::: "memory"); /* so that the call is no jump */
}
